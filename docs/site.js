// Of the site alone: a field above the tables of a reference page, which leaves the rows that hold every word typed.
document.addEventListener("DOMContentLoaded", () => {
  const article = document.querySelector("article");
  const tables = article ? [...article.querySelectorAll("table")] : [];
  const isReference = (table) => ["key", "column"].includes(table.querySelector("th")?.textContent.trim());
  if (tables.length < 2 || !tables.every(isReference)) return;

  const sections = []; // of one heading each: what stands below it, up to the next
  for (const element of [...article.children]) {
    if (/^H[23]$/.test(element.tagName)) sections.push([]);
    if (sections.length) sections.at(-1).push(element);
  }
  const field = document.createElement("input");
  field.type = "search";
  field.className = "table-filter";
  field.placeholder = "Show only rows with these words";
  field.setAttribute("aria-label", field.placeholder);
  sections[0][0].before(field);
  field.addEventListener("input", () => {
    const words = field.value.toLowerCase().split(/\s+/).filter(Boolean);
    const holds = (row) => words.every((word) => row.textContent.toLowerCase().includes(word));
    for (const section of sections) {
      const rows = section.flatMap((element) => [...element.querySelectorAll("tbody tr")]);
      for (const row of rows) row.hidden = !holds(row);
      let mark; // the bold row that says of which kind the rows below it are
      for (const row of rows) {
        if (row.cells[0].querySelector("strong")) mark = row;
        else if (mark && !row.hidden) mark.hidden = false;
      }
      const isEmpty = words.length > 0 && rows.every((row) => row.hidden);
      for (const element of section) element.hidden = isEmpty;
    }
  });
});
