const rows = [...document.querySelectorAll(".steps tbody tr")];

// Chooses a row by its id, or all rows about an origin; a row may be about several.
function choose(origins, id) {
  const has = row => row.dataset.origin.split(" ").includes(origins);
  for (const row of rows)
    row.classList.toggle("chosen", id ? row.dataset.step === id : has(row));
  for (const frame of document.querySelectorAll("svg .step")) {
    const chosen = origins.split(" ").includes(frame.dataset.origin);
    frame.classList.toggle("chosen", chosen);
    if (chosen) show(frame);
  }
  const wanted = rows.filter(row => row.classList.contains("chosen")).map(row => row.dataset.step);
  for (const section of document.querySelectorAll("#details section"))
    section.hidden = !wanted.includes(section.dataset.step);
  document.getElementById("hint").hidden = wanted.length > 0;
  const shown = document.querySelector("#details section:not([hidden])");
  if (id && shown) shown.scrollIntoView({block: "nearest"});
}

function show(frame) {
  const around = frame.closest(".graph"), box = around.getBoundingClientRect();
  const at = frame.getBoundingClientRect();
  if (at.top < box.top || at.bottom > box.bottom)
    around.scrollTop += (at.top + at.bottom - box.top - box.bottom) / 2;
  if (at.left < box.left || at.right > box.right)
    around.scrollLeft += (at.left + at.right - box.left - box.right) / 2;
}

// A graph that is much wider than the page is readable only at its own size.
for (const svg of document.querySelectorAll(".graph svg"))
  if (svg.width.baseVal.value > 2 * document.body.clientWidth) {
    document.getElementById("fit").checked = false;
    svg.parentNode.scrollLeft = (svg.parentNode.scrollWidth - svg.parentNode.clientWidth) / 2;
  }

for (const row of rows) {
  row.tabIndex = 0;
  row.addEventListener("click", () => choose(row.dataset.origin, row.dataset.step));
  row.addEventListener("keydown", event => {
    if (event.key === "Enter") choose(row.dataset.origin, row.dataset.step);
  });
}
for (const frame of document.querySelectorAll("svg .step"))
  frame.addEventListener("click", () => choose(frame.dataset.origin, ""));
