// The button "Report from here": draws in this page from the exact table of the mechanism file, which is inside it, by the
// package of clients/js. The probabilities that the page shows are rounded; no report is ever drawn from them.

const drawn = { record: -1, output: -1, times: 0 };
let sampler = null;

/** Read the mechanism file inside this page and prove it private, or refuse it; at the first click, as it takes a moment. */
async function readSampler() {
  const bytes = Uint8Array.from(atob(payload.sampling.file), (sign) => sign.charCodeAt(0));
  const unpacked = new Blob([bytes]).stream().pipeThrough(new DecompressionStream("gzip"));
  const found = metricdp.load(await new Response(unpacked).arrayBuffer());
  const isShown = found.certificate.outputs === nOutputs && found.ids.length === nRecords && found.ids.every((id, i) => id === payload.ids[i]);
  if (!isShown) throw new Error("the file inside this page is of another mechanism than the page shows");
  return found;
}

/** Say what was drawn for the chosen record; nothing once another record is chosen. */
function showDrawn(state) {
  const said = byId("drawn");
  if (!said) return;
  if (drawn.record !== state.record) [drawn.record, drawn.output, drawn.times] = [state.record, -1, 0];
  said.hidden = drawn.times === 0;
  if (said.hidden) return;
  const chance = Number(sampler.weight(drawn.record, drawn.output)) / 2 ** 63;
  said.replaceChildren(
    "Drawn: ", element("b", { class: "id", text: payload.outputs[drawn.output] }), `, which comes with ${percent(chance)}.`,
    element("small", { text: drawn.times === 1
      ? "By the exact table, with this device's randomness; nothing was sent."
      : `${count(drawn.times)} reports drawn here: each one that is sent spends the budget again.` }));
}

function startSampling(state) {
  const box = byId("record-actions");
  if (!payload.sampling.file) {
    box.append(element("p", { class: "drawn", id: "not-drawn", text: `No report can be drawn in this page: ${payload.sampling.why}.` }));
    return;
  }
  const button = element("button", { type: "button", class: "draw", id: "draw", text: "Report from here" });
  const said = element("p", { class: "drawn", id: "drawn" });
  said.hidden = true;
  box.append(button, said);
  let isBusy = false;

  function say(text) {
    said.hidden = false;
    said.replaceChildren(text);
    announce(text);
  }

  button.addEventListener("click", async () => {
    if (isBusy) return;
    try {
      if (!sampler) {
        isBusy = true;
        say("Checking the mechanism file …");
        await new Promise((done) => requestAnimationFrame(() => setTimeout(done)));
        sampler = await readSampler();
      }
      const { output } = sampler.perturb(payload.ids[state.record]); // refuses records that nothing protects
      [drawn.times, drawn.record] = [drawn.record === state.record ? drawn.times + 1 : 1, state.record];
      drawn.output = state.output = output;
      update();
      announce(`Drawn: report ${payload.outputs[output]}`);
    } catch (error) {
      say(`Nothing was drawn: ${error.message}`);
    } finally {
      isBusy = false;
    }
  });
}
