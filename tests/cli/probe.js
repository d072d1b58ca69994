// What a reader would see of a page's figures, told to the page around it as JSON.
"use strict";
addEventListener("load", () => {
  const box = (element) => {
    const { left, right, top, bottom } = element.getBoundingClientRect();
    return { left, right, top, bottom };
  };
  const overlap = (a, b) =>
    Math.min(a.right, b.right) - Math.max(a.left, b.left) > 1 && Math.min(a.bottom, b.bottom) - Math.max(a.top, b.top) > 3;
  const figures = [...document.querySelectorAll("figure")].map((figure) => {
    const shown = [...figure.querySelectorAll("svg, img")].filter((one) => one.getBoundingClientRect().width > 0);
    const texts = shown.flatMap((svg) => [...svg.querySelectorAll("text")].filter((text) => text.textContent));
    const frame = shown.length ? box(shown[0]) : null;
    const cut = texts.filter((text) => {
      const own = box(text);
      return own.left < frame.left - 1 || own.right > frame.right + 1 || own.top < frame.top - 1 || own.bottom > frame.bottom + 1;
    });
    const on = texts.flatMap((a, index) =>
      texts.slice(index + 1).filter((b) => overlap(box(a), box(b))).map((b) => a.textContent + " | " + b.textContent));
    return { shown: shown.length, frame, cut: cut.map((text) => text.textContent), overlapping: on };
  });
  const seen = JSON.stringify({
    width: document.documentElement.clientWidth,
    needed: document.documentElement.scrollWidth,
    figures,
  });
  parent.postMessage(seen, "*");
});
