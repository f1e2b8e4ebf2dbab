"use strict";
(() => {
  const names = JSON.parse(document.getElementById("names").textContent);
  const said = document.getElementById("said");
  const all = (selector, from = document) => [...from.querySelectorAll(selector)];

  // Choosing: one thing in each chart is in the tab order, arrows choose another, and its layer is
  // marked in every chart.
  const marks = new Map();
  for (const mark of all("[data-layer]")) {
    const layer = mark.dataset.layer;
    if (layer < 0) continue;
    if (!marks.has(layer)) marks.set(layer, []);
    marks.get(layer).push(mark);
  }
  let chosen = [];
  const choose = (item) => {
    for (const mark of chosen) mark.classList.remove("chosen");
    chosen = item ? marks.get(item.dataset.layer) || [] : [];
    for (const mark of chosen) mark.classList.add("chosen");
    said.textContent = item ? text(item) : "";
  };
  const number = (value) => Number(value).toLocaleString("en", { maximumFractionDigits: 0 });
  const text = (item) => {
    if (item.cells) {
      const [layer, bar, cycles] = item.cells;
      return `${layer.title}: ${cycles.textContent} cycles, ${bar.firstChild.getAttribute("aria-label")}`;
    }
    if (!item.dataset.span) return item.getAttribute("aria-label");
    const [begin, end, busy, count] = item.dataset.span.split(" ").map(Number);
    const unit = item.parentNode.getAttribute("aria-label").split(",")[0];
    const part = busy < end - begin ? ", busy " + ((100 * busy) / (end - begin)).toFixed(0) + " % of them" : "";
    return `${unit}: ${names[item.dataset.layer] || "no layer"}, cycles ${number(begin)} to ` +
      `${number(end)}${part}` + (count ? `, ${number(count)} instruction${count === 1 ? "" : "s"}` : "") +
      (steps.length ? `; unified buffer up to ${share(fullest(...edges(item)))}` : "");
  };
  const focus = (chart, item) => {
    for (const other of all('[tabindex="0"]', chart)) if (other !== item) other.setAttribute("tabindex", -1);
    if (item.dataset.span) {
      item.setAttribute("role", "listitem");
      item.setAttribute("aria-label", text(item));
    }
    item.setAttribute("tabindex", 0);
    item.focus({ preventScroll: chart.id === "lanes" });
  };
  for (const chart of all("[data-choose]")) {
    const find = (target) => target.closest && target.closest(chart.dataset.choose + "[data-layer]");
    const items = all(chart.dataset.choose + "[data-layer]", chart);
    if (!items.length) continue;
    if (chart.dataset.choose === "circle") {
      const at = (circle) => parseFloat(circle.getAttribute("cx"));
      items.sort((a, b) => at(a) - at(b));
    }
    items[0].setAttribute("tabindex", 0);
    // Of a chip that is not shown nothing can be chosen.
    const seen = () => items.filter((item) => !item.closest("[hidden]"));
    chart.addEventListener("pointerover", (event) => {
      const item = find(event.target);
      if (item && event.pointerType !== "touch") choose(item);
    });
    chart.addEventListener("pointerleave", () => choose(chart.contains(document.activeElement) ? find(document.activeElement) : null));
    chart.addEventListener("focusin", (event) => choose(find(event.target)));
    chart.addEventListener("focusout", () => choose(null));
    chart.addEventListener("click", (event) => {
      const item = find(event.target);
      if (item) focus(chart, item);
    });
    chart.addEventListener("keydown", (event) => {
      const item = find(event.target);
      if (!item) return;
      const now = seen();
      const place = now.indexOf(item);
      const steps = { ArrowRight: 1, ArrowDown: 1, ArrowLeft: -1, ArrowUp: -1 };
      let next = null;
      if (event.key === "Home") next = now[0];
      else if (event.key === "End") next = now[now.length - 1];
      else if (event.key === "Enter") {
        const row = document.getElementById("layer-" + item.dataset.layer);
        if (row) row.scrollIntoView({ block: "center" });
      } else if (chart.id === "lanes" && steps[event.key] && !event.key.match(/Left|Right/)) {
        next = otherLane(item, steps[event.key]);
      } else if (steps[event.key]) next = now[place + steps[event.key]];
      else return;
      event.preventDefault();
      if (next) {
        if (chart.id === "lanes") show(next);
        focus(chart, next);
      }
    });
  }
  document.addEventListener("keydown", (event) => {
    if (event.key === "Escape") choose(null);
  });

  // The unified buffer: its area is a row of steps, each at its place across and its height.
  const level = document.querySelector("svg.level");
  const steps = level
    ? [...level.firstElementChild.getAttribute("d").matchAll(/H([\d.]+)V([\d.]+)/g)].map((step) => step.slice(1).map(Number))
    : [];
  const fullest = (left, right) => {
    let most = 0;
    steps.forEach(([at, height], n) => {
      const until = n + 1 < steps.length ? steps[n + 1][0] : Infinity;
      if (at <= right && until > left) most = Math.max(most, 1 - height / level.viewBox.baseVal.height);
    });
    return most;
  };
  const share = (part) => {
    const bytes = part * Number(level.dataset.peak);
    return `${number(bytes)} bytes (${((100 * bytes) / Number(level.dataset.bytes)).toFixed(0)} %)`;
  };

  // The timeline: zooming changes what part of the spans' own width is stretched over the page.
  const timeline = document.getElementById("lanes");
  const lanes = timeline ? all("svg.spans", timeline) : [];
  const whole = timeline ? Number(timeline.dataset.width) : 1;
  const view = { x: 0, width: whole };
  const units = [[1, "s"], [1e-3, "ms"], [1e-6, "µs"], [1e-9, "ns"]];
  const axis = () => {
    const svg = document.getElementById("time-axis");
    const per = Number(timeline.dataset.cycles) / Number(timeline.dataset.hz) / whole;
    const span = view.width * per;
    const wanted = span / Math.max(2, Math.min(8, svg.clientWidth / 90));
    const power = 10 ** Math.floor(Math.log10(wanted));
    const step = power * [1, 2, 5, 10].find((n) => n * power >= wanted);
    const [size, unit] = units.find(([n]) => span >= n) || units[3];
    const digits = Math.max(0, Math.ceil(-Math.log10(step / size) - 1e-9));
    svg.replaceChildren();
    for (let n = Math.ceil((view.x * per) / step - 1e-9); n * step <= (view.x + view.width) * per * (1 + 1e-9); n += 1) {
      const at = (100 * (n * step - view.x * per)) / span;
      const label = document.createElementNS("http://www.w3.org/2000/svg", "text");
      label.setAttribute("x", at + "%");
      label.setAttribute("y", 14);
      label.setAttribute("text-anchor", at < 5 ? "start" : at > 93 ? "end" : "middle");
      label.textContent = ((n * step) / size).toFixed(digits) + " " + unit;
      svg.append(label);
    }
  };
  const look = (x, width) => {
    view.width = Math.min(whole, Math.max(whole / 5000, width));
    view.x = Math.min(whole - view.width, Math.max(0, x));
    for (const svg of lanes) {
      const height = svg.viewBox.baseVal.height;
      svg.setAttribute("viewBox", `${view.x} 0 ${view.width} ${height}`);
    }
    axis();
  };
  const edges = (rect) => {
    const x = Number(rect.getAttribute("x"));
    return [x, x + Number(rect.getAttribute("width"))];
  };
  const zoom = (factor, at) => {
    const centre = at === undefined ? view.x + view.width / 2 : at;
    const width = Math.min(whole, Math.max(whole / 5000, view.width * factor));
    look(centre - ((centre - view.x) * width) / view.width, width);
  };
  const show = (rect) => {
    const [left, right] = edges(rect);
    if (left < view.x || right > view.x + view.width) look((left + right - view.width) / 2, view.width);
  };
  const otherLane = (rect, step) => {
    const lane = lanes[lanes.indexOf(rect.parentNode) + step];
    if (!lane || lane === level) return null;
    const [left, right] = edges(rect);
    const far = (one) => Math.abs(edges(one)[0] + edges(one)[1] - left - right);
    return all("rect", lane).reduce((best, one) => (far(one) < far(best) ? one : best));
  };
  const actions = {
    in: (at) => zoom(0.5, at),
    out: (at) => zoom(2, at),
    left: () => look(view.x - view.width / 3, view.width),
    right: () => look(view.x + view.width / 3, view.width),
    all: () => look(0, whole),
  };
  if (timeline) {
    for (const button of all("[data-zoom]")) button.addEventListener("click", () => actions[button.dataset.zoom]());
    timeline.addEventListener("keydown", (event) => {
      const action = { "+": "in", "=": "in", "-": "out", 0: "all" }[event.key];
      if (!action || event.ctrlKey || event.metaKey || event.altKey) return;
      event.preventDefault();
      const rect = event.target.closest("rect");
      actions[action](rect ? (edges(rect)[0] + edges(rect)[1]) / 2 : undefined);
    });
    let held = null;
    if (level) {
      level.addEventListener("pointermove", (event) => {
        const box = level.getBoundingClientRect();
        const at = view.x + (view.width * (event.clientX - box.left)) / box.width;
        const cycle = (at * Number(timeline.dataset.cycles)) / whole;
        said.textContent = `unified buffer: ${share(fullest(at, at))}, cycle ${number(cycle)}`;
      });
      level.addEventListener("pointerleave", () => {
        const item = document.activeElement.closest("rect[data-layer]");
        choose(item && timeline.contains(item) ? item : null);
      });
    }
    for (const svg of lanes) {
      svg.addEventListener("pointerdown", (event) => {
        held = { at: event.clientX, x: view.x, per: view.width / svg.clientWidth };
      });
      svg.addEventListener("dblclick", (event) => {
        const box = svg.getBoundingClientRect();
        zoom(0.5, view.x + (view.width * (event.clientX - box.left)) / box.width);
      });
    }
    window.addEventListener("pointermove", (event) => {
      if (held && event.buttons) look(held.x - (event.clientX - held.at) * held.per, view.width);
    });
    window.addEventListener("pointerup", () => { held = null; });
    window.addEventListener("resize", axis);
    axis();
  }

  // Bars of one length each, or each as long as its layer took.
  const same = document.getElementById("same-length");
  const bars = all(".bars .bar svg").map((svg) => [svg, svg.getAttribute("width")]);
  const lengths = () => {
    for (const [svg, width] of bars) svg.setAttribute("width", same.checked ? "100%" : width);
  };
  if (same) {
    same.addEventListener("change", lengths);
    lengths();
  }

  // Sorting: figures from the largest, texts from the first, then the other way, then as executed.
  const table = document.getElementById("layers");
  const body = table.tBodies[0];
  const executed = [...body.rows];
  const headings = all("thead th", table);
  headings.forEach((heading, column) => {
    const figures = heading.classList.contains("number");
    const orders = figures ? ["descending", "ascending", "none"] : ["ascending", "descending", "none"];
    heading.firstChild.addEventListener("click", () => {
      const now = heading.getAttribute("aria-sort");
      const order = now === "none" ? orders[0] : orders[orders.indexOf(now) + 1];
      for (const other of headings) other.setAttribute("aria-sort", "none");
      heading.setAttribute("aria-sort", order);
      const value = (row) => {
        const { dataset, textContent } = row.cells[column];
        return dataset.v ?? (textContent === "-" ? "" : textContent.replaceAll(",", ""));
      };
      const compare = (a, b) => {
        const [one, two] = [value(a), value(b)];
        if (one === "" || two === "") return (one === "") - (two === "");
        const found = figures ? one - two : one.localeCompare(two, "en", { numeric: true });
        return order === "ascending" ? found : -found;
      };
      body.append(...(order === "none" ? executed : [...executed].sort(compare)));
    });
  });
})();
