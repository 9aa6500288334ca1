"""A test of the auditor: it must catch every broken pipeline that ships with it, and pass the sound ones."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from metricdp.evaluate.auditor.auditor import Audit, audit_pipeline
from metricdp.evaluate.auditor.broken import BROKEN
from metricdp.evaluate.auditor.sound import SOUND

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from metricdp.evaluate.auditor.examples import Setting

SELF_TEST_RATE = 1e-6  # false alarms of each audit of a self-test


@dataclass(frozen=True)
class Example:
    """A pipeline with a known verdict."""

    make: Callable[[], Setting]
    is_sound: bool

    @property
    def name(self) -> str:
        """Its name."""
        return self.make.__name__.replace("_", "-")

    @property
    def story(self) -> str:
        """What it does, in a sentence."""
        return self.make.__doc__ or ""

    def audit(self, *, false_alarm_rate: float = SELF_TEST_RATE) -> Audit:
        """Return the result of the audit."""
        setting = self.make()
        return audit_pipeline(
            setting.pipeline,
            setting.pairs,
            setting.claim,
            outputs=setting.outputs,
            n_draws=setting.n_draws,
            false_alarm_rate=false_alarm_rate,
        )


@dataclass(frozen=True)
class Verdict:
    """The auditor's verdict on an example."""

    example: Example
    audit: Audit

    @property
    def is_right(self) -> bool:
        """Whether the verdict is the known one."""
        return self.audit.passed == self.example.is_sound


EXAMPLES = (*(Example(make, is_sound=False) for make in BROKEN), *(Example(make, is_sound=True) for make in SOUND))


def self_test(*, false_alarm_rate: float = SELF_TEST_RATE) -> Iterator[Verdict]:
    """Yield the auditor's verdict on each shipped example."""
    for example in EXAMPLES:
        yield Verdict(example, example.audit(false_alarm_rate=false_alarm_rate))
