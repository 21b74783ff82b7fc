(() => {
"use strict";
const two = (n) => String(n).padStart(2, "0");
const local = (text) => {
  const at = new Date(text.replace(" UTC", "Z").replace(" ", "T"));
  if (isNaN(at)) return text;
  const away = -at.getTimezoneOffset(), size = Math.abs(away);
  const seconds = text.split(":").length > 2 ? ":" + two(at.getSeconds()) : "";
  return `${at.getFullYear()}-${two(at.getMonth() + 1)}-${two(at.getDate())} ` +
    `${two(at.getHours())}:${two(at.getMinutes())}${seconds} ` +
    `${away < 0 ? "-" : "+"}${two(Math.floor(size / 60))}${two(size % 60)}`;
};
const MOMENT = /\d{4}-\d\d-\d\d(?:T\d\d:\d\d(?::\d\d)?Z| \d\d:\d\d(?::\d\d)? UTC)/g;

// Moments in the reader's own time; not in what nodes wrote, nor in commands.
const localize = (root) => {
  const walk = document.createTreeWalker(root, NodeFilter.SHOW_TEXT);
  while (walk.nextNode()) {
    const node = walk.currentNode, said = node.data, parent = node.parentElement;
    if (!said.match(MOMENT) || parent.closest("pre, code, script, style")) continue;
    if (parent.tagName === "TIME") parent.title = said;
    node.data = said.replace(MOMENT, local);
  }
};

// A button beside each command, for keyboards and thumbs.
const offerCopies = () => {
  if (!navigator.clipboard) return;
  for (const command of document.querySelectorAll("code.command")) {
    const button = document.createElement("button");
    button.name = button.className = button.textContent = "copy";
    button.setAttribute("aria-label", `copy ${command.textContent}`);
    button.onclick = async () => {
      await navigator.clipboard.writeText(command.textContent);
      button.textContent = "copied";
    };
    command.after(" ", button);
  }
};

// What is open stays open, also on another page of ours.
let open = new Set();
try { open = new Set(JSON.parse(sessionStorage.getItem("open")) || []); } catch { /* not kept */ }
const reopen = () => {
  for (const one of document.querySelectorAll("details[id]")) one.open = open.has(one.id);
};
document.addEventListener("toggle", ({ target }) => {
  if (!target.id || target.tagName !== "DETAILS") return;
  if (target.open) open.add(target.id); else open.delete(target.id);
  try { sessionStorage.setItem("open", JSON.stringify([...open])); } catch { /* not kept */ }
}, true);

const ago = (seconds) => {
  for (const [unit, size] of [["d", 86400], ["h", 3600], ["min", 60]]) {
    if (seconds >= 2 * size) return `${Math.floor(seconds / size)} ${unit}`;
  }
  return `${Math.max(0, Math.round(seconds))} s`;
};

let since = Date.now();
const told = () => document.getElementById("age");
const count = () => {
  if (!told()) return;
  const { age, at, lasts } = told().dataset;
  const seconds = at ? Date.now() / 1000 - at : Number(age) + (Date.now() - since) / 1000;
  told().textContent = ago(seconds);
  if (Math.abs(seconds) > lasts) doubt();
};

// A page in a file may be old when it comes: then it knows nothing.
const doubt = () => {
  document.title = "(?) " + document.title.replace(/^\(.*?\) /, "");
  document.querySelector(".tiles")?.remove();
  for (const badge of document.querySelectorAll(".badge")) {
    badge.className = "badge";
    badge.textContent = "UNKNOWN";
  }
  document.getElementById("old")?.replaceWith(document.getElementById("old").content);
};

const prepare = () => {
  count();
  localize(document.body);
  offerCopies();
  reopen();
};

const key = (one) => [one.tagName, one.getAttribute("href"), one.name, one.closest("[id]")?.id].join();
const CAN_FOCUS = "a[href], summary, button, input, select, .scroll";
const renew = async () => {
  const before = document.activeElement || document.body;
  const stale = document.getElementById("stale");
  if (document.hidden) return;
  if (before.form || String(getSelection())) {
    stale.textContent = "Not updated while you type or select.";
    return;
  }
  if (location.protocol === "file:") return location.reload();
  try {
    const answer = await fetch(location.pathname + location.search, { cache: "no-store" });
    if (!answer.ok) throw new Error(answer.status);
    const fresh = new DOMParser().parseFromString(await answer.text(), "text/html");
    const wanted = before.matches(CAN_FOCUS) ? key(before) : "";
    const across = document.getElementById("map")?.scrollLeft || 0;
    document.title = fresh.title;
    for (const part of ["header", "main", "footer"]) {
      document.querySelector(part).replaceWith(document.adoptNode(fresh.querySelector(part)));
    }
    since = Date.now();
    prepare();
    const map = document.getElementById("map");
    if (map) map.scrollLeft = across;
    if (wanted) {
      const same = [...document.querySelectorAll(CAN_FOCUS)].find((one) => key(one) === wanted);
      same?.focus({ preventScroll: true });
    }
  } catch (error) {
    stale.textContent = `No answer for ${Math.round((Date.now() - since) / 1000)} s (${error.message}).`;
  }
};

prepare();
setInterval(count, 5000);
const every = Number(document.body.dataset.refresh);
if (every) {
  setInterval(renew, every * 1000);
  document.addEventListener("visibilitychange", () => {
    if (!document.hidden && Date.now() - since > every * 1000) renew();
  });
}
})();
