"""Files are written whole or not at all, and only where a regular file may stand."""

from __future__ import annotations

import os
import stat

import pytest

from metricdp.data import writing
from metricdp.data.writing import check_writable, replacing, stream_number, write_new, write_whole
from metricdp.errors import InputError


def mode(path):
    return stat.S_IMODE(path.stat().st_mode)


@pytest.mark.parametrize(("umask", "expected"), [(0o022, 0o644), (0o077, 0o600)])
def test_a_new_file_honours_the_umask(tmp_path, umask, expected):
    before = os.umask(umask)
    try:
        write_whole(tmp_path / "new", b"x")
    finally:
        os.umask(before)
    assert mode(tmp_path / "new") == expected


def test_a_replaced_file_keeps_its_permissions(tmp_path):
    path = tmp_path / "old"
    path.write_bytes(b"before")
    path.chmod(0o640)
    write_whole(path, b"after")
    assert (path.read_bytes(), mode(path)) == (b"after", 0o640)


@pytest.mark.parametrize("before", [0o644, 0o640, 0o400 | 0o200, None])
def test_a_private_file_is_private_whatever_it_replaces(tmp_path, before):
    path = tmp_path / "reports"
    if before is not None:
        path.write_bytes(b"before")
        path.chmod(before)
    with replacing(path, is_private=True) as target:
        target.write("after")
    assert (path.read_bytes(), mode(path)) == (b"after", 0o600)


def test_a_new_file_is_whole_and_private_and_replaces_nothing(tmp_path):
    path = tmp_path / "key"
    write_new(path, b"first")
    with pytest.raises(FileExistsError):
        write_new(path, b"second")
    assert (path.read_bytes(), mode(path)) == (b"first", 0o600)
    assert list(tmp_path.iterdir()) == [path]


def test_nothing_is_left_of_a_new_file_that_could_not_be_written(tmp_path, monkeypatch):
    def fail(_handle):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "fsync", fail)
    with pytest.raises(OSError, match="No space left"):
        write_new(tmp_path / "key", b"first")
    assert list(tmp_path.iterdir()) == []


def test_a_link_is_followed(tmp_path):
    (tmp_path / "folder").mkdir()
    link, place = tmp_path / "link", tmp_path / "folder" / "place"
    for content in (b"first", b"second"):
        link.unlink(missing_ok=True)
        link.symlink_to(place)
        write_whole(link, content)
        assert link.is_symlink()
        assert place.read_bytes() == content


def test_what_is_no_regular_file_is_refused(tmp_path):
    os.mkfifo(tmp_path / "pipe")
    (tmp_path / "to-null").symlink_to("/dev/null")
    (tmp_path / "loop").symlink_to(tmp_path / "loop")
    for name in ("pipe", "to-null", "loop", ".", "missing/x", "a" * 300, "zero\0byte"):
        with pytest.raises(InputError, match="cannot write"):
            check_writable(tmp_path / name)
        with pytest.raises(InputError, match="cannot write"):
            write_whole(tmp_path / name, b"x")
    assert stat.S_ISFIFO((tmp_path / "pipe").stat().st_mode)
    assert sorted(p.name for p in tmp_path.iterdir()) == ["loop", "pipe", "to-null"]


@pytest.mark.parametrize("error", [OSError(28, "No space left on device"), KeyboardInterrupt()])
def test_a_failure_leaves_the_old_file_and_nothing_else(tmp_path, monkeypatch, error):
    path = tmp_path / "file"
    path.write_bytes(b"before")

    def fail(_):
        raise error

    monkeypatch.setattr(os, "fsync", fail)
    with pytest.raises(InputError if isinstance(error, OSError) else KeyboardInterrupt):
        write_whole(path, b"after")
    assert [(p.name, p.read_bytes()) for p in tmp_path.iterdir()] == [("file", b"before")]


def test_only_what_is_ours_and_left_is_removed(tmp_path):
    """A live writer's file stays, and so does whatever else stands there; a link is not followed."""
    left, link = tmp_path / f".metricdp-{'0' * 16}.tmp", tmp_path / f".metricdp-{'1' * 16}.tmp"
    left.write_bytes(b"secret")
    (tmp_path / "victim").write_bytes(b"victim")
    link.symlink_to("victim")
    (tmp_path / ".metricdp-notes.tmp").write_bytes(b"mine")
    with replacing(tmp_path / "first") as first:
        assert not left.exists()
        write_whole(tmp_path / "second", b"2")
        first.write("1")
    names = sorted(path.name for path in tmp_path.iterdir())
    assert names == [link.name, ".metricdp-notes.tmp", "first", "second", "victim"]
    assert (tmp_path / "victim").read_bytes() == b"victim"
    assert (tmp_path / "first").read_bytes() == b"1"


def test_a_file_taken_for_a_leftover_before_it_is_locked_is_made_again(tmp_path, monkeypatch):
    lock, made = writing.fcntl.flock, []

    def late(stream, how):
        if not made:
            made.append(next(tmp_path.glob(".metricdp-*.tmp")))
            made[0].unlink()  # as another process would that looks for leftovers right now
        lock(stream, how)

    monkeypatch.setattr(writing.fcntl, "flock", late)
    write_whole(tmp_path / "file", b"whole")
    assert made
    assert [(p.name, p.read_bytes()) for p in tmp_path.iterdir()] == [("file", b"whole")]


def test_open_streams_are_never_replaced(tmp_path):
    place, link = tmp_path / "place", tmp_path / "link"
    place.write_bytes(b"before ")
    with place.open("ab") as stream:
        name = f"/dev/fd/{stream.fileno()}"
        link.symlink_to(name)
        for path in (name, link):
            assert stream_number(path) == stream.fileno()
            with pytest.raises(InputError, match="it is an open stream"):
                write_whole(path, b"x")
            with replacing(path) as target:
                target.write("öne ")
                assert place.read_bytes().count(b"\xc3\xb6ne ") == (path is link)  # only at the end
    assert place.read_text(encoding="utf-8") == "before öne öne "
    with pytest.raises(InputError, match="cannot write /dev/fd/987: Bad file descriptor"), replacing("/dev/fd/987"):
        pass
