// What a pointer or finger meets in a drawing is written below it.
for (const drawing of document.querySelectorAll("figure")) {
  const told = drawing.querySelector("output");
  drawing.addEventListener("pointerover", (event) => {
    const title = event.target.querySelector(":scope > title");
    if (title && told) told.textContent = title.textContent;
  });
}
