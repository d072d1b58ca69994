// Shows what a figure says of a place at once, on touch screens too; without this the browser's own tooltip does.
"use strict";
const tip = document.getElementById("tip");
const show = (event) => {
  const place = event.target.closest ? event.target.closest(".hover") : null;
  const title = place && place.querySelector("title");
  tip.hidden = !title;
  if (!title) return;
  tip.textContent = title.textContent;
  const box = place.getBoundingClientRect();
  const widest = document.documentElement.clientWidth - tip.offsetWidth - 8;
  tip.style.left = Math.max(8, Math.min(box.left, widest)) + window.scrollX + "px";
  tip.style.top = box.bottom + 8 + window.scrollY + "px";
};
document.addEventListener("pointerover", show);
document.addEventListener("click", show);
