const around = document.querySelector(".timeline"), about = document.getElementById("about");

document.getElementById("zoom").addEventListener("input", event => {
  const middle = (around.scrollLeft + around.clientWidth / 2) / around.scrollWidth;
  around.style.setProperty("--zoom", 2 ** event.target.value);
  around.scrollLeft = middle * around.scrollWidth - around.clientWidth / 2;
});

// The event under the pointer is described below; a click marks all events of its name.
around.addEventListener("mouseover", event => {
  const bar = event.target.closest(".bar");
  if (bar) about.textContent = bar.querySelector("title").textContent;
});
around.addEventListener("click", event => {
  const bar = event.target.closest(".bar"), name = bar && bar.dataset.name;
  for (const other of around.querySelectorAll(".bar"))
    other.classList.toggle("chosen", other.dataset.name === name);
});
