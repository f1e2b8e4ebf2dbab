"use strict";
(() => {
  const known = JSON.parse(document.getElementById("what-if-figures").textContent);
  const all = (selector, from = document) => [...from.querySelectorAll(selector)];
  const get = (key) => document.getElementById("if-" + key);

  // Showing and hiding a chip: its roofs, names and dots.
  for (const box of all("[data-shows]")) {
    const show = () => {
      for (const group of all(`g[data-chip="${box.dataset.shows}"]`)) group.toggleAttribute("hidden", !box.checked);
      const dots = all(".dots circle").filter((dot) => !dot.closest("[hidden]"));
      if (dots.length && !dots.some((dot) => dot.getAttribute("tabindex") === "0")) dots[0].setAttribute("tabindex", 0);
    };
    box.addEventListener("change", show);
    show();
  }

  // Figures as Ridgeline prints them: three digits and a prefix.
  const three = (value) => (Math.abs(value) >= 100 ? Math.round(value).toLocaleString("en") : String(Number(value.toPrecision(3))));
  const scales = [[1e12, "T"], [1e9, "G"], [1e6, "M"], [1e3, "k"], [1, ""], [1e-3, "m"], [1e-6, "µ"], [1e-9, "n"]];
  const quantity = (value, unit) => {
    if (!value) return `0 ${unit}`;
    const [scale, prefix] = scales.find(([size]) => Math.abs(value) >= size) || scales[scales.length - 1];
    return `${three(value / scale)} ${prefix}${unit}`;
  };
  const percent = (share) => `${(100 * share).toFixed(100 * share < 0.05 ? 3 : 1)} %`;

  // Choices: chips, the chosen chip's precisions, and batches.
  const fill = (select, values, wanted) => {
    select.replaceChildren(...values.map(([value, text]) => new Option(text, value, false, String(value) === String(wanted))));
  };
  const base = known.bases[0];
  const titles = new Map(known.options.map((one) => [one.chip, one.title]));
  const precisions = (wanted) => {
    const those = known.options.filter((one) => one.chip === get("chip").value).map((one) => one.precision);
    fill(get("precision"), those.map((one) => [one, one]), those.includes(wanted) ? wanted : those[0]);
  };
  const reset = () => {
    get("peak").value = known.sheet;
    get("bandwidth").value = 0;
  };
  const begin = () => {
    fill(get("chip"), [...titles], base.chip);
    precisions(base.precision);
    fill(get("batch"), known.works.map((one) => [one.batch, one.batch.toLocaleString("en")]), base.batch);
    reset();
  };

  // The same formula as `again` in roofline/what_if.py.
  const solve = (tried, peak, bandwidth) => tried.parts[0].map((launch, layer) => {
    const parts = tried.parts.map((part) => part[layer]);
    parts[1] = tried.compute[peak][layer];
    parts[4] /= bandwidth;
    const rest = parts.slice(1).reduce((sum, part) => sum + part ** known.p, 0);
    return { seconds: launch + rest ** (1 / known.p), limit: parts.indexOf(Math.max(...parts)) };
  });

  const [xLow, xHigh, yLow, yHigh, height, smallest, largest] = known.axes;
  const across = (value) => (100 * (Math.log10(value) - xLow)) / (xHigh - xLow);
  const down = (value) => (height * (yHigh - Math.log10(value))) / (yHigh - yLow);
  const draw = (name, attributes) => {
    const made = document.createElementNS("http://www.w3.org/2000/svg", name);
    for (const [key, value] of Object.entries(attributes)) made.setAttribute(key, value);
    return made;
  };
  const line = (x1, y1, x2, y2) => draw("line", { x1: across(x1) + "%", y1: down(y1), x2: across(x2) + "%", y2: down(y2) });

  const changed = () => {
    const [chip, precision, batch] = ["chip", "precision", "batch"].map((key) => get(key).value);
    const peak = Number(get("peak").value);
    const bandwidth = 2 ** (Number(get("bandwidth").value) / known.doubling);
    const option = known.options.find((one) => one.chip === chip && one.precision === precision);
    const place = known.works.findIndex((one) => String(one.batch) === batch);
    return { option, peak, bandwidth, work: known.works[place], tried: option.tries[place] };
  };
  const facts = (rows) => {
    get("answer").replaceChildren(...rows.flatMap(([name, text]) => {
      const [term, said] = [document.createElement("dt"), document.createElement("dd")];
      term.textContent = name;
      said.textContent = text;
      return [term, said];
    }));
  };
  const rows = all("#layers tbody tr").sort((a, b) => a.dataset.layer - b.dataset.layer);

  const show = () => {
    const now = changed();
    const peak = now.option.peak * known.peaks[now.peak];
    const rate = now.option.rate * now.bandwidth;
    const texts = [["peak", known.peaks[now.peak], quantity(peak, "OPS")], ["bandwidth", now.bandwidth, quantity(rate, "B/s")]];
    for (const [key, times, text] of texts) {
      get(key + "-text").textContent = `× ${three(times)}: ${text}`;
      get(key).setAttribute("aria-valuetext", `${three(times)} times, ${text}`);
    }
    get("chart").replaceChildren();
    if (now.tried.refused) {
      facts([["not possible", now.tried.refused]]);
      rows.forEach((row) => mark(row, null));
      return;
    }
    const found = solve(now.tried, now.peak, now.bandwidth);
    const seconds = found.reduce((sum, one) => sum + one.seconds, 0);
    answer(now, found, seconds, peak);
    rows.forEach((row, layer) => mark(row, found[layer], now.option.names));
    if (!untouched(now)) overlay(now, found, seconds, peak, rate);
  };
  const isSheet = (now) => now.peak === known.sheet && now.bandwidth === 1;
  const baseOf = (now) => known.bases.find((one) =>
    one.chip === now.option.chip && one.precision === now.option.precision && one.batch === now.work.batch);
  const untouched = (now) => isSheet(now) && baseOf(now) !== undefined;

  const answer = (now, found, seconds, peak) => {
    const by = new Map();
    for (const one of found) by.set(one.limit, (by.get(one.limit) || 0) + one.seconds);
    const limits = [...by].sort((a, b) => b[1] - a[1]).map(([limit, part]) => `${now.option.names[limit]} ${percent(part / seconds)}`);
    const same = isSheet(now) && baseOf(now);
    const interval = same ? ` (${quantity(seconds * same.spread[0], "s")} to ${quantity(seconds * same.spread[1], "s")})` : "";
    const faster = (base.seconds / base.batch) / (seconds / now.work.batch);
    facts([
      ["utilisation", now.work.operations === null ? "unknown" : percent(now.work.operations / (seconds * peak))],
      ["time", quantity(seconds, "s") + interval],
      ["samples/s", three(now.work.batch / seconds)],
      ["a sample", `${three(faster)} × as fast as on ${titles.get(base.chip)} in ${base.precision} at batch ${base.batch}`],
      ["limited by", limits.join(", ")],
    ]);
  };
  const mark = (row, one, names) => {
    const [time, limit] = [row.querySelector(".if-time"), row.querySelector(".if-limit")];
    time.textContent = one ? quantity(one.seconds, "s") : "-";
    time.dataset.v = one ? one.seconds : "";
    limit.textContent = one ? names[one.limit] : "-";
  };
  const overlay = (now, found, seconds, peak, rate) => {
    const [left, right, bottom] = [10 ** xLow, 10 ** xHigh, 10 ** yLow];
    const corner = Math.min(Math.max(peak / rate, left), right);
    const start = Math.max(left, bottom / rate);
    if (start < corner) get("chart").append(line(start, start * rate, corner, corner * rate));
    get("chart").append(line(corner, peak, right, peak));
    found.forEach((one, layer) => {
      const [work, bytes] = [now.work.layers[layer], now.tried.bytes[layer]];
      if (!work || !bytes || !one.seconds) return;
      const share = Math.min(one.seconds / seconds, 1);
      get("chart").append(draw("circle", {
        cx: across(work / bytes) + "%",
        cy: down(work / one.seconds),
        r: Math.sqrt(smallest ** 2 + (largest ** 2 - smallest ** 2) * share),
      }));
    });
  };

  get("chip").addEventListener("change", () => precisions(get("precision").value));
  get("reset").addEventListener("click", () => { reset(); show(); });
  for (const key of ["chip", "precision", "batch"]) get(key).addEventListener("change", show);
  for (const key of ["peak", "bandwidth"]) get(key).addEventListener("input", show);
  begin();
  show();
})();
