(function () {
  "use strict";
  var all = function (what) { return Array.prototype.slice.call(document.querySelectorAll(what)); };
  var one = function (what) { return document.querySelector(what); };
  var form = one("#study"), start = one("#start"), steps = one("#steps"), end = one("#end");
  var questions = all(".question"), study = form.getAttribute("data-study"), place = "study-" + study;
  var state = null, at = -1;  // -1: the first screen; as many as there are questions: the last one

  function drawn() {
    var bytes = window.crypto.getRandomValues(new Uint8Array(8));
    return Array.prototype.map.call(bytes, function (byte) { return (256 + byte).toString(16).slice(1); }).join("");
  }

  // A browser that keeps nothing still works: then a closed page is a lost one.
  function keep() {
    try { window.localStorage.setItem(place, JSON.stringify(state)); } catch (refused) { return; }
  }

  function kept() {
    try {
      var found = JSON.parse(window.localStorage.getItem(place));
      return found && Array.isArray(found.answers) && found.answers.length === questions.length ? found : null;
    } catch (refused) { return null; }
  }

  function open() { return state.answers.filter(function (answer) { return answer === null; }).length; }

  function show(number) {
    at = number;
    start.hidden = at >= 0;
    end.hidden = at < questions.length;
    steps.hidden = at < 0 || at >= questions.length;
    questions.forEach(function (question, index) { question.hidden = index !== at; });
    if (at < 0) { return; }
    one("progress").value = questions.length - open();
    one("#back").disabled = at === 0;
    window.scrollTo(0, 0);
    if (at < questions.length) {
      one("#next").disabled = state.answers[at] === null;
      questions[at].querySelector("h2").focus();
    } else {
      one("#left").textContent = open() ? "Questions without an answer: " + open() + "." : "Every question has an answer.";
      end.querySelector("h2").focus();
    }
  }

  function choose(input) {
    input.checked = true;
    state.answers[at] = input.value === "none" ? "none" : Number(input.value);
    one("#next").disabled = false;
    one("progress").value = questions.length - open();
    keep();
  }

  function begin() {
    state = { id: drawn(), name: one("#name").value.trim(), answers: questions.map(function () { return null; }) };
    keep();
    show(0);
  }

  function save() {
    var answers = state.answers.map(function (answer) { return answer === "none" ? null : answer; });
    var content = { format: 1, study: study, annotator: { id: state.id, name: state.name }, answers: answers };
    var link = document.createElement("a");
    link.href = URL.createObjectURL(new Blob([JSON.stringify(content)], { type: "application/json" }));
    link.download = "answers-" + (state.name.replace(/[^A-Za-z0-9]+/g, "-") || "anonymous") + "-" + state.id.slice(0, 6) + ".json";
    link.click();
    window.setTimeout(function () { URL.revokeObjectURL(link.href); }, 10000);
  }

  form.addEventListener("submit", function (event) {
    event.preventDefault();
    if (at < 0) { begin(); } else if (at < questions.length && state.answers[at] !== null) { show(at + 1); }
  });
  form.addEventListener("change", function (event) {
    if (event.target.type === "radio" && at >= 0) { choose(event.target); }
  });
  one("#back").addEventListener("click", function () { show(at - 1); });
  one("#look").addEventListener("click", function () {
    var left = state.answers.indexOf(null);
    show(left < 0 ? questions.length - 1 : left);
  });
  one("#forget").addEventListener("click", function () {
    if (!window.confirm("Are the answers saved? They are forgotten here.")) { return; }
    try { window.localStorage.removeItem(place); } catch (refused) { /* nothing was kept */ }
    window.location.reload();
  });
  all(".save").forEach(function (button) { button.addEventListener("click", save); });
  document.addEventListener("keydown", function (event) {
    if (at < 0 || at >= questions.length || event.ctrlKey || event.altKey || event.metaKey) { return; }
    var inputs = questions[at].querySelectorAll("input");
    var number = "0123456789".indexOf(event.key);
    if (event.key.length === 1 && number >= 0 && number < inputs.length) {
      var input = inputs[number === 0 ? inputs.length - 1 : number - 1];
      choose(input);
      input.focus();
    } else if (event.key === "Enter" && /^(H2|BODY)$/.test(event.target.tagName) && state.answers[at] !== null) {
      show(at + 1);
    }
  });

  form.reset();  // what the browser filled in by itself is nobody's answer
  state = kept();
  if (state) {
    state.answers.forEach(function (answer, number) {
      var input = answer === null ? null : questions[number].querySelector('input[value="' + Number(answer) + '"]');
      if (answer === "none") { input = questions[number].querySelector('input[value="none"]'); }
      if (input) { input.checked = true; }
    });
    var first = state.answers.indexOf(null);
    show(first < 0 ? questions.length : first);
  }
})();
