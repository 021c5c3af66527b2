"use strict";
// Draws the questions and sends the answers. Whatever comes from a command is put in as text, never as markup.
//
// An answer counts only if it was meant: nothing can be pressed for a moment after what is shown has changed,
// since a question may come up under a finger that is on its way to something else. And a yes counts only once
// all that it covers was in sight: what has a scrollbar of its own, to its end.

const QUIET = 700; // milliseconds
const AGAIN = 2000;
const KEY = "pinfold-token";
const questions = document.getElementById("questions");
const state = document.getElementById("state");
const note = document.getElementById("note");

let token = location.hash.slice(1);
if (token) {
  sessionStorage.setItem(KEY, token);
  history.replaceState(null, "", location.pathname);
} else {
  token = sessionStorage.getItem(KEY) || "";
}
const cards = new Map();
const answered = new Set();
let armed = 0;
let noteTimer = 0;

function element(name, text, className) {
  const made = document.createElement(name);
  if (text !== undefined) made.textContent = text;
  if (className) made.className = className;
  return made;
}

function call(path, options = {}) {
  const headers = { Authorization: `Bearer ${token}`, ...options.headers };
  return fetch(path, { ...options, headers, cache: "no-store", credentials: "omit", redirect: "error" });
}

function disarm() {
  armed = performance.now() + QUIET;
  for (const button of questions.querySelectorAll("button")) button.disabled = true;
  setTimeout(rearm, QUIET + 10);
}

function rearm() {
  if (performance.now() < armed) return;
  for (const card of cards.values()) for (const button of card.buttons()) button.disabled = card.busy;
}

function say(text) {
  note.textContent = text;
  note.hidden = !text;
  clearTimeout(noteTimer);
  noteTimer = setTimeout(() => { note.hidden = true; }, 6000);
}

class Card {
  constructor(id, content, left) {
    this.id = id;
    this.content = content;
    this.end = performance.now() + left * 1000;
    this.reach = 0;
    this.busy = false;
    this.read = new WeakSet(); // what was scrolled to its end
    this.node = element("article", undefined, content.isGrave ? "card grave" : "card");
    this.left = element("span", "", "left");
    this.bar = element("progress");
    this.bar.max = Math.max(content.seconds, 1);
    this.bar.setAttribute("aria-label", "time left");
    const head = element("header");
    head.append(element("h2", content.headline), this.left);
    this.answers = element("div", undefined, "answers");
    this.node.append(head, this.bar, ...this.command(), this.facts(), ...this.details(), this.answers);
    this.node.addEventListener("scroll", () => this.unread(), true);
    this.draw();
    this.tick();
  }

  command() {
    if (!this.content.command.length) return [];
    const shown = element("pre");
    this.content.command.forEach((line, index) => {
      if (index) shown.append("\n");
      for (const piece of line) shown.append(piece.marked ? element("mark", piece.text) : piece.text);
    });
    return [shown];
  }

  facts() {
    const list = element("dl");
    const add = (name, texts, className) => {
      const value = element("dd", undefined, className);
      for (const text of texts) value.append(element("p", text));
      list.append(element("dt", name), value);
    };
    for (const [name, text] of this.content.facts) add(name, [text]);
    const why = [...new Set(this.content.why.map((each) => each.message))];
    if (why.length) add("why", why);
    if (this.content.says) add("agent says", [this.content.says], "says");
    return list;
  }

  details() {
    const told = this.content.why.filter((each) => each.rule || each.where || each.remedy);
    if (!told.length) return [];
    this.explained = element("details");
    const list = element("ul");
    for (const each of told) {
      const parts = [`step ${each.step}`];
      if (each.rule) parts.push(`rule ${each.rule}`);
      if (each.where) parts.push(`at ${each.where}`);
      if (each.remedy) parts.push(`to change it: ${each.remedy}`);
      list.append(element("li", parts.join(" · ")));
    }
    this.explained.append(element("summary", "explain"), list);
    return [this.explained];
  }

  buttons() {
    return this.answers.querySelectorAll("button");
  }

  draw() {
    const offered = this.content.offered[this.reach];
    const rows = offered.choices.map((choice) => {
      const yes = choice.answer === "once" || (choice.answer === "session" && offered.choices.length === 2);
      const row = this.row(choice.key, choice.answer, choice.effect, () => this.press(choice.key, true));
      if (yes) row.className = "yes";
      return row;
    });
    const word = this.reach + 1 < this.content.offered.length ? "wider" : "narrower";
    if (offered.wider) rows.push(this.row("w", word, `show answers that apply to ${offered.wider}`, () => this.press("w")));
    this.answers.replaceChildren(...rows);
    for (const button of rows) button.disabled = performance.now() < armed || this.busy;
  }

  row(key, word, effect, press) {
    const button = element("button");
    button.type = "button";
    button.append(element("kbd", key), element("b", word), element("span", effect));
    button.addEventListener("click", press);
    return button;
  }

  // The part that was not seen whole yet, if any. The agent's own words grant nothing.
  unread() {
    for (const part of this.node.querySelectorAll("pre, dd:not(.says)")) {
      if (part.scrollTop + part.clientHeight >= part.scrollHeight - 2) this.read.add(part);
      part.classList.toggle("unread", !this.read.has(part));
    }
    return this.node.querySelector(".unread");
  }

  areAnswersInSight() {
    const { bottom } = this.answers.getBoundingClientRect();
    return bottom > 0 && bottom <= innerHeight + 2;
  }

  press(key, isClick = false) {
    if (this.busy || performance.now() < armed) return;
    const offered = this.content.offered[this.reach];
    if (key === "w" && offered.wider) {
      this.reach = (this.reach + 1) % this.content.offered.length;
      this.draw();
      return;
    }
    if (key === "e" && this.explained) {
      this.explained.open = !this.explained.open;
      return;
    }
    const choice = offered.choices.find((each) => each.key === key);
    if (!choice) return;
    const unread = choice.answer !== "no" && this.unread();
    if (unread) {
      unread.scrollIntoView({ block: "nearest" });
      say("scroll what is framed to its end, then answer");
      return;
    }
    if (choice.answer !== "no" && !isClick && !this.areAnswersInSight()) {
      this.answers.scrollIntoView({ block: "end" });
      disarm();
      return;
    }
    if (choice.answer === "rule") this.askForRules();
    else this.answer(choice.answer, []);
  }

  askForRules() {
    const form = element("div", undefined, "rules");
    const inputs = this.content.rules.map((rule) => {
      const label = element("label", `add to ${this.content.ruleKey}`);
      const input = element("input");
      input.value = rule;
      input.autocomplete = "off";
      input.spellcheck = false;
      input.addEventListener("keydown", (event) => {
        if (event.key === "Enter") send();
        if (event.key === "Escape") this.draw();
        event.stopPropagation();
      });
      label.append(input);
      return [label, input];
    });
    const send = () => {
      if (!this.busy) this.answer("rule", inputs.map(([, input]) => input.value.trim()));
    };
    this.trouble = element("p", "", "trouble");
    form.append(...inputs.map(([label]) => label), this.trouble,
      this.row("⏎", "add", "to your settings, as shown above", send),
      this.row("Esc", "back", "choose again", () => this.draw()));
    this.answers.replaceChildren(form);
    inputs[0][1].focus();
  }

  async answer(answer, rules) {
    const offered = this.content.offered[this.reach];
    const lasting = answer === "session" || answer === "always";
    const given = { answer, reach: lasting ? offered.reach : "command", rules };
    this.busy = true;
    rearm();
    try {
      const response = await call("/api/answer", {
        method: "POST",
        headers: { "Content-Type": "application/json" },
        body: JSON.stringify({ id: this.id, given }),
      });
      if (response.ok) {
        answered.add(this.id);
        this.gone();
        return;
      }
      const said = (await response.json()).error;
      if (response.status === 422 && this.trouble) this.trouble.textContent = said;
      else say(said);
    } catch {
      say("the answer could not be sent; it counts for nothing yet");
    }
    this.busy = false;
    rearm();
  }

  gone() {
    this.node.remove();
    cards.delete(this.id);
    disarm();
    arrange();
  }

  tick() {
    const left = Math.max(0, (this.end - performance.now()) / 1000);
    const whole = Math.ceil(left);
    this.bar.value = left;
    this.left.textContent = `no in ${Math.floor(whole / 60)}:${String(whole % 60).padStart(2, "0")}`;
  }
}

function first() {
  return cards.values().next().value;
}

function arrange() {
  for (const card of cards.values()) card.node.classList.toggle("first", card === first());
  document.getElementById("calm").hidden = cards.size > 0;
  document.title = cards.size ? `(${cards.size}) pinfold asks` : "pinfold";
}

function show(told) {
  const now = new Set(told.map((each) => each.id));
  for (const [id, card] of cards) {
    if (now.has(id)) continue;
    card.node.remove();
    cards.delete(id);
    say(`not asked any more: ${card.content.headline}`);
    disarm();
  }
  for (const { id, content, left } of told) {
    if (answered.has(id)) continue;
    const known = cards.get(id);
    if (known) {
      known.end = performance.now() + left * 1000;
      continue;
    }
    const card = new Card(id, content, left);
    cards.set(id, card);
    questions.append(card.node);
    disarm();
  }
  arrange();
}

function report(text, bad) {
  state.textContent = text;
  state.className = bad ? "bad" : "";
}

async function follow() {
  let version = -1;
  for (;;) {
    try {
      const response = await call(`/api/questions?after=${version}`);
      if (response.status === 401) {
        report("open the address that `pinfold web` prints", true);
        return;
      }
      if (!response.ok) throw new Error(response.statusText);
      const news = await response.json();
      version = news.version;
      report("connected", false);
      show(news.questions);
    } catch {
      report("`pinfold web` does not answer", true);
      show([]);
      document.getElementById("calm").hidden = true;
      version = -1;
      await new Promise((resolve) => setTimeout(resolve, AGAIN));
    }
  }
}

document.addEventListener("keydown", (event) => {
  if (event.ctrlKey || event.altKey || event.metaKey || event.repeat || event.target instanceof HTMLInputElement) return;
  const card = first();
  if (!card) return;
  if (performance.now() < armed) disarm(); // typed at something else: wait until nothing comes
  else card.press(event.key);
});
addEventListener("focus", disarm);
document.addEventListener("visibilitychange", disarm);
setInterval(() => { for (const card of cards.values()) card.tick(); }, 250);

if (token) follow();
else report("open the address that `pinfold web` prints", true);
