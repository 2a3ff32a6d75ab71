(function () {
  "use strict";
  var all = function (where, what) { return Array.prototype.slice.call(where.querySelectorAll(what)); };
  var lit = null;

  function light(name) {
    if (name === lit) { return; }
    lit = name;
    document.body.classList.toggle("lit", name !== null);
    all(document, "[data-recipe]").forEach(function (node) {
      node.classList.toggle("on", name !== null && node.getAttribute("data-recipe") === name);
    });
  }

  // Titles of drawings work without this script; with it they come at once, by keyboard and by touch too.
  var tip = document.createElement("div");
  tip.id = "tip";
  tip.setAttribute("role", "status");
  document.body.appendChild(tip);
  all(document, "svg.fig title").forEach(function (node) {
    node.parentNode.setAttribute("data-tip", node.textContent);
    node.parentNode.setAttribute("aria-label", node.textContent);
    node.parentNode.removeChild(node);
  });

  function tell(node) {
    tip.textContent = node ? node.getAttribute("data-tip") : "";
    tip.className = node ? "shown" : "";
    if (!node) { return; }
    var box = node.getBoundingClientRect();
    var left = Math.min(Math.max(8, box.left + box.width / 2 - tip.offsetWidth / 2),
      document.documentElement.clientWidth - tip.offsetWidth - 8);
    var top = box.top - tip.offsetHeight - 10;
    tip.style.left = Math.max(8, left) + "px";
    tip.style.top = (top < 4 ? box.bottom + 10 : top) + "px";
  }

  function attend(event) {
    var at = event.target.closest ? event.target : null;
    var recipe = at && at.closest("[data-recipe]");
    light(recipe ? recipe.getAttribute("data-recipe") : null);
    tell(at && at.closest("[data-tip]"));
  }

  document.addEventListener("mouseover", attend);
  document.addEventListener("focusin", attend);
  document.addEventListener("focusout", function () { light(null); tell(null); });
  document.documentElement.addEventListener("mouseleave", function () { light(null); tell(null); });
  document.addEventListener("keydown", function (event) { if (event.key === "Escape") { light(null); tell(null); } });
  window.addEventListener("scroll", function () { tell(null); }, { passive: true });

  function value(row, column) {
    var cell = row.cells[column];
    var given = cell.hasAttribute("data-v") ? cell.getAttribute("data-v") : cell.textContent.trim();
    var amount = parseFloat(given.replace("\u2212", "-").replace(/,/g, ""));
    return { text: given, amount: isNaN(amount) ? null : amount };
  }

  function sort(table, column, head) {
    var down = head.getAttribute("aria-sort") === "ascending";
    all(table, "thead th").forEach(function (other) { other.removeAttribute("aria-sort"); });
    head.setAttribute("aria-sort", down ? "descending" : "ascending");
    var body = table.tBodies[0];
    var rows = Array.prototype.slice.call(body.rows).map(function (row) {
      return { row: row, value: value(row, column) };
    });
    var numeric = rows.some(function (one) { return one.value.amount !== null; });
    rows.sort(function (a, b) {
      var x = a.value, y = b.value, order;
      if (numeric) {
        // What has no number stays at the end either way.
        if (x.amount === null || y.amount === null) { return (x.amount === null) - (y.amount === null); }
        order = x.amount - y.amount;
      } else {
        order = x.text.localeCompare(y.text);
      }
      return down ? -order : order;
    });
    rows.forEach(function (one) { body.appendChild(one.row); });
  }

  all(document, "table.sortable").forEach(function (table) {
    all(table, "thead th").forEach(function (head, column) {
      if (!head.textContent.trim()) { return; }
      var button = document.createElement("button");
      button.type = "button";
      button.className = "sort";
      while (head.firstChild) { button.appendChild(head.firstChild); }
      head.appendChild(button);
      button.addEventListener("click", function () { sort(table, column, head); });
    });
  });

  all(document, "table.filtered").forEach(function (table) {
    var label = document.createElement("label");
    var box = document.createElement("input");
    var told = document.createElement("span");
    label.className = "filter";
    box.type = "search";
    told.className = "soft";
    told.setAttribute("aria-live", "polite");
    label.append("Show recipes with ", box, " ", told);
    table.parentNode.parentNode.insertBefore(label, table.parentNode);
    box.addEventListener("input", function () {
      var wanted = box.value.trim().toLowerCase().replace(/-/g, "\u2212").split(/\s+/), shown = 0, rows = 0;
      all(table, "tbody tr[data-recipe]").forEach(function (row) {
        var name = row.getAttribute("data-recipe").toLowerCase();
        var fits = wanted.every(function (word) { return name.indexOf(word) >= 0; });
        row.classList.toggle("out", !fits);
        rows += 1;
        shown += fits ? 1 : 0;
      });
      told.textContent = box.value ? shown + " of " + rows : "";
    });
  });

  function reveal() {
    var name = decodeURIComponent(window.location.hash.slice(1));
    var node = name ? document.getElementById(name) : null;
    var folded = node ? node.closest("details:not([open])") : null;
    while (folded) {
      folded.open = true;
      folded = folded.parentNode.closest("details:not([open])");
    }
    if (node) { node.scrollIntoView({ block: "center" }); }
  }

  window.addEventListener("hashchange", reveal);
  if (window.location.hash) { reveal(); }

  var unfolded = [];
  window.addEventListener("beforeprint", function () {
    unfolded = all(document, "details.prints:not([open])");
    unfolded.forEach(function (node) { node.open = true; });
  });
  window.addEventListener("afterprint", function () {
    unfolded.forEach(function (node) { node.open = false; });
  });
})();
