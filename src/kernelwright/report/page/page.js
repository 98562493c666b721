// Sorts and filters tables of candidates. Works on the rows that are there; makes no element and sends nothing.
"use strict";
const openTarget = () => {
  const target = document.getElementById(location.hash.slice(1));
  if (target instanceof HTMLDetailsElement) target.open = true;
};
addEventListener("hashchange", openTarget);
openTarget();
for (const panel of document.querySelectorAll("[data-sortable]")) {
  const body = panel.querySelector("tbody");
  const rows = Array.from(body.rows);
  const query = panel.querySelector("input");
  const choice = panel.querySelector("select");
  const count = panel.querySelector("output");
  const controls = panel.querySelector(".controls");
  if (controls) controls.hidden = false;

  const filter = () => {
    const words = query.value.toLowerCase();
    let shown = 0;
    for (const row of rows) {
      const fits = (!choice.value || row.dataset.standing === choice.value) &&
        (!words || row.textContent.toLowerCase().includes(words));
      row.hidden = !fits;
      shown += fits ? 1 : 0;
    }
    count.textContent = shown + " of " + rows.length;
  };
  if (query && choice) {
    query.addEventListener("input", filter);
    choice.addEventListener("change", filter);
    filter();
  }

  panel.querySelectorAll("th button").forEach((button) => {
    button.addEventListener("click", () => {
      const head = button.closest("th");
      const index = head.cellIndex;
      const down = head.getAttribute("aria-sort") !== "descending";
      panel.querySelectorAll("th").forEach((one) => one.removeAttribute("aria-sort"));
      head.setAttribute("aria-sort", down ? "descending" : "ascending");
      const key = (row) => row.cells[index].dataset.value ?? row.cells[index].textContent;
      const numeric = head.dataset.kind === "number";
      const order = (a, b) => {
        const x = key(a), y = key(b);
        if (!numeric) return x.localeCompare(y);
        return (x === "" ? -Infinity : Number(x)) - (y === "" ? -Infinity : Number(y)) || 0;
      };
      rows.sort((a, b) => (down ? order(b, a) : order(a, b)));
      body.append(...rows);
    });
  });
}
