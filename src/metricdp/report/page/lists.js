// In place of a map: all records and all reports as two lists, of which only the visible rows exist.

const ROW_HEIGHT = 34;

function makeList(box, { label, choose }) {
  const filler = element("div", { class: "filler" });
  box.append(filler);
  let entries = [], chosen = -1, top = 1;

  function draw() {
    const first = Math.max(0, Math.floor(box.scrollTop / ROW_HEIGHT) - 5);
    const last = Math.min(entries.length, Math.ceil((box.scrollTop + box.clientHeight) / ROW_HEIGHT) + 5);
    filler.style.height = `${entries.length * ROW_HEIGHT}px`;
    const rows = [];
    for (let place = first; place < last; place++) {
      const [which, p, said = percent(p)] = entries[place];
      const fill = element("div", { class: "fill" });
      fill.style.width = `${(100 * p) / top}%`;
      if (p === 0) fill.hidden = true;
      const row = element("div", { class: "row", role: "option", id: `${box.id}-${which}`, "aria-setsize": entries.length,
        "aria-posinset": place + 1, "aria-selected": String(which === chosen) },
        element("span", { class: "id", text: label(which), title: label(which) }),
        element("div", { class: "track", "aria-hidden": "true" }, fill),
        element("span", { class: "value", text: said }));
      row.style.top = `${place * ROW_HEIGHT}px`;
      row.addEventListener("click", () => choose(which));
      rows.push(row);
    }
    filler.replaceChildren(...rows);
    if (filler.querySelector("[aria-selected='true']")) box.setAttribute("aria-activedescendant", `${box.id}-${chosen}`);
    else box.removeAttribute("aria-activedescendant");
  }

  function showChosen() {
    const place = entries.findIndex(([which]) => which === chosen);
    if (place < 0) return;
    const [low, high] = [place * ROW_HEIGHT, (place + 1) * ROW_HEIGHT];
    const [above, below] = [box.scrollTop - low, high - box.scrollTop - box.clientHeight];
    if (Math.max(above, below) > 3 * ROW_HEIGHT) box.scrollTop = low - box.clientHeight / 2;
    else if (above > 0) box.scrollTop = low;
    else if (below > 0) box.scrollTop += below;
  }

  box.addEventListener("scroll", draw, { passive: true });
  new ResizeObserver(draw).observe(box);
  box.addEventListener("keydown", (event) => {
    const place = entries.findIndex(([which]) => which === chosen);
    const page = Math.max(1, Math.floor(box.clientHeight / ROW_HEIGHT) - 1);
    const moves = { ArrowDown: place + 1, ArrowUp: place - 1, Home: 0, End: entries.length - 1,
      PageDown: place + page, PageUp: place - page };
    if (!(event.key in moves)) return;
    event.preventDefault();
    choose(entries[Math.min(entries.length - 1, Math.max(0, moves[event.key]))][0]);
  });

  return {
    /** Show entries (which, probability) in their order; a new order starts at its top. */
    fill(now, selected, isNewOrder) {
      [entries, chosen] = [now, selected];
      top = entries.reduce((most, [, p]) => Math.max(most, p), 1e-300);
      filler.style.height = `${entries.length * ROW_HEIGHT}px`;
      if (isNewOrder) box.scrollTop = 0;
      else showChosen();
      draw();
    },
  };
}

function makeLists(state, choose) {
  byId("lists").hidden = false;
  const records = makeList(byId("records"), { label: (i) => payload.ids[i], choose: choose.record });
  const reports = makeList(byId("reports"), { label: (k) => payload.outputs[k], choose: choose.output });
  const inOrder = Array.from({ length: nRecords }, (_, i) => [i, arrays.prior[i]]);
  const byChance = state.order.map((k) => [k, arrays.chance[k]]);

  /** All of `size` things: the likely ones first, then those that are not among them. */
  function complete(entries, size) {
    const has = new Set(entries.map(([which]) => which));
    const rest = Array.from({ length: size }, (_, i) => i).filter((i) => !has.has(i));
    return [...entries, ...rest.map((i) => [i, 0, rare()])];
  }

  return {
    draw() {
      const isRecord = state.view === "record";
      byId("lists").dataset.view = state.view;
      byId("records-hint").textContent = isRecord ? "how likely each is beforehand" : "how likely each is after the report";
      byId("reports-hint").textContent = isRecord ? "how often this record gives it" : "how often it is given by anyone";
      records.fill(isRecord ? inOrder : complete(posteriorOf(state.output), nRecords), state.record, !isRecord);
      reports.fill(isRecord ? complete(reportsOf(state.record), nOutputs) : byChance, state.output, isRecord);
    },
    paint() {},
    show() {},
    showChosen() {},
  };
}
