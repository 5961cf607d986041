// The page at "/": ask a model, see why, learn and forget. The token lives in one variable and nowhere else.
"use strict";

const $ = (id) => document.getElementById(id);
const MAX_FIELDS = 24; // a longer context is typed as lines
const LEADERS = 4;
const MAX_MODELS = 50; // each is asked for its description
const MAX_LINES = 20; // of the audit record
const SHORT_DIGEST = 16; // digits; the whole digest is shown under the pointer

let token = "";
let about = null; // what the server says of the chosen model
let asked = null; // the row of the answer that is shown
const looks = new Map(); // when a model was last looked at, and its version then
let newest = 0; // the version that answers must hold: that of our own last edit

class Refusal extends Error {
  constructor(status, message) {
    super(message);
    this.status = status;
  }
}

async function request(method, path, body) {
  const headers = {};
  if (body !== undefined) headers["content-type"] = "application/json";
  if (token) headers.authorization = `Bearer ${token}`;
  let answer;
  try {
    answer = await fetch(path, {
      method, headers, credentials: "omit", cache: "no-store",
      body: body === undefined ? undefined : JSON.stringify(body),
    });
  } catch {
    throw new Refusal(0, "The server cannot be reached.");
  }
  const told = await answer.json();
  if (answer.ok) return told;
  if (answer.status === 401) $("token-form").hidden = false;
  throw new Refusal(answer.status, told.error.message);
}

const modelPath = (rest = "") => `/v1/models/${$("model").value}${rest}`;

function say(text, bad = false) {
  $("said").textContent = text;
  $("said").classList.toggle("bad", bad);
  $("said").hidden = !text;
  if (text) $("said").scrollIntoView({ block: "nearest" });
}

// Runs what a click asks for: one at a time, and what goes wrong is said.
async function busy(work) {
  const buttons = document.querySelectorAll("button");
  buttons.forEach((button) => { button.disabled = true; });
  say("");
  try {
    await work();
  } catch (error) {
    if (error.status !== 401 || token) say(error.message, true);
  } finally {
    buttons.forEach((button) => { button.disabled = false; });
  }
}

function element(name, text, ...classes) {
  const made = document.createElement(name);
  if (text !== undefined) made.textContent = text;
  made.classList.add(...classes);
  return made;
}

// Models

async function showModels(chosen) {
  const { models } = await request("GET", "/v1/models");
  $("token-form").hidden = true;
  $("model").replaceChildren(...models.map((name) => element("option", name)));
  if (models.includes(chosen)) $("model").value = chosen;
  $("empty").hidden = models.length > 0;
  $("work").hidden = models.length === 0;
  if (models.length) await showModel();
}

async function showModel() {
  about = await request("GET", modelPath());
  newest = 0;
  asked = null;
  $("answer").hidden = true;
  $("nothing").hidden = false;
  showFields();
  showFacts();
  await operate();
}

function columnNames() {
  const given = about.settings && about.settings.columns;
  if (Array.isArray(given)) return given;
  const count = about.columns ?? given ?? 0;
  return Array.from({ length: count }, (_, i) => `${i + 1}`);
}

function showFields() {
  const names = columnNames();
  const asLines = names.length === 0 || names.length > MAX_FIELDS;
  $("tokens").classList.toggle("wide", asLines);
  if (asLines) {
    const label = element("label", names.length ? `${names.length} tokens, one a line` : "Tokens, one a line");
    label.append(element("textarea"));
    $("tokens").replaceChildren(label);
    return;
  }
  $("tokens").replaceChildren(...names.map((name) => {
    const label = element("label", name);
    const input = element("input");
    input.autocomplete = "off";
    label.append(input);
    return label;
  }));
}

function showFacts() {
  const facts = [
    ["Version", about.version.toLocaleString()],
    ["Examples", about.examples.toLocaleString()],
    ["Labels", (about.n_classes ?? about.classes.length).toLocaleString()],
    ["Memory", about.memory],
    ["Vote", about.vote],
    ["Digest", about.digest ? `${about.digest.slice(0, SHORT_DIGEST)}…` : undefined, about.digest],
  ];
  $("facts").replaceChildren(...facts.filter(([, value]) => value !== undefined).map(([name, value, whole]) => {
    const pair = element("div");
    pair.append(element("dt", name), element("dd", value));
    if (whole) pair.lastChild.title = whole;
    return pair;
  }));
  $("classes").replaceChildren(...about.classes.slice(0, 200).map((name) => {
    const option = element("option");
    option.value = String(name);
    return option;
  }));
}

// Questions

function value(text) {
  if (text === "") return null; // a missing value
  return $("numbers").checked && /^-?\d{1,15}$/.test(text) ? Number(text) : text;
}

function row() {
  const lines = $("tokens").querySelector("textarea");
  if (!lines) return Array.from($("tokens").querySelectorAll("input"), (input) => value(input.value.trim()));
  return lines.value.split("\n").map((line) => line.trim()).filter((line) => line).map(value);
}

async function ask() {
  asked = row();
  const body = { rows: [asked], k: LEADERS };
  if (newest) body.min_version = newest;
  const { explanations, version } = await request("POST", modelPath("/explain"), body);
  showAnswer(explanations[0], version);
}

function showAnswer(found, version) {
  $("nothing").hidden = true;
  $("answer").hidden = false;
  $("winner").textContent = String(found.labels[0]);
  $("proof").hidden = found.certified === null;
  $("proof").textContent = found.certified ? "proven" : "not proven";
  $("proof").classList.toggle("open", !found.certified);
  const lead = found.margin === null ? "the only label" : found.margin === 0
    ? `level with ${found.labels[1]}` : `${short(found.margin)} ahead of ${found.labels[1]}`;
  $("verdict").textContent = `Version ${version.toLocaleString()}: ${lead}.`;
  const tabs = found.labels.map((label, i) => {
    const tab = element("button", String(label));
    tab.type = "button";
    tab.addEventListener("click", () => showBars(found, i));
    return tab;
  });
  $("labels").replaceChildren(...tabs);
  showBars(found, 0);
}

const short = (number) => Number(number.toPrecision(3)).toLocaleString(undefined, { maximumSignificantDigits: 3 });

function siteName(found, site) {
  const names = columnNames();
  if (site.kind) return [site.kind, ...site.tokens].join(": ");
  return site.positions.map((r) => `${names[r] ?? r + 1}: ${found.tokens[r] ?? "–"}`).join(", ");
}

function showBars(found, chosen) {
  Array.from($("labels").children).forEach((tab, i) => tab.setAttribute("aria-pressed", String(i === chosen)));
  const parts = [["prior", found.base[chosen], false]];
  for (const site of found.sites) {
    const isNew = site.positions.some((r) => found.seen[r] === false);
    parts.push([siteName(found, site), site.contributions[chosen], isNew]);
  }
  const shown = found.base.some((x) => x !== 0) ? parts : parts.slice(1);
  const values = shown.map(([, number]) => number);
  const low = Math.min(0, ...values);
  const span = Math.max(0, ...values) - low || 1;
  const rows = shown.map(([name, number, isNew]) => barRow(name, number, low, span, isNew));
  const sum = element("tr", undefined, "sum");
  sum.append(element("th", "score"), element("td"), element("td", short(found.scores[chosen]), "number"));
  $("bars").tBodies[0].replaceChildren(...rows, sum);
}

function barRow(name, number, low, span, isNew) {
  const tr = element("tr");
  const th = element("th", isNew ? `${name} (never seen)` : name);
  th.scope = "row";
  th.classList.toggle("new", isNew);
  const track = element("div", undefined, "track");
  const bar = element("div", undefined, "bar");
  const zero = element("div", undefined, "zero");
  const percent = (x) => `${(100 * (x - low)) / span}%`;
  bar.classList.toggle("minus", number < 0);
  bar.style.left = percent(Math.min(0, number));
  bar.style.width = `${(100 * Math.abs(number)) / span}%`;
  bar.hidden = number === 0;
  zero.style.left = percent(0);
  zero.hidden = low === 0;
  track.append(bar, zero);
  const td = element("td");
  td.append(track);
  tr.append(th, td, element("td", short(number), "number"));
  return tr;
}

// Edits

function newId() {
  const bytes = crypto.getRandomValues(new Uint8Array(16));
  return `page-${Array.from(bytes, (byte) => byte.toString(16).padStart(2, "0")).join("")}`;
}

async function edit(kind) {
  const label = value($("label").value.trim());
  if (label === null) throw new Refusal(0, "Type a label first.");
  const { version } = await request("POST", modelPath(`/${kind}`), { op: newId(), rows: [row()], labels: [label] });
  newest = version;
  say(`${kind === "learn" ? "Learnt" : "Forgotten"}: version ${version.toLocaleString()} is on the disk.`);
  about = await request("GET", modelPath());
  if (columnNames().length && $("tokens").querySelector("textarea")) {
    const typed = row();
    showFields();
    $("tokens").querySelectorAll("input").forEach((input, i) => { input.value = typed[i] ?? ""; });
  }
  showFacts();
  if (about.examples) await ask();
}

// Operation

const bytes = (number) => (number < 1e6 ? `${(number / 1e3).toFixed(1)} kB` : `${(number / 1e6).toFixed(1)} MB`);
const time = (seconds) => new Date(1000 * seconds).toLocaleString();

function cells(...texts) {
  const tr = element("tr");
  tr.append(...texts.map((text, i) => element(i ? "td" : "th", text)));
  return tr;
}

// The edits a minute since the model was last looked at.
function rate(name, version) {
  const now = Date.now();
  const [before, then] = looks.get(name) ?? [now, version];
  looks.set(name, [now, version]);
  return now > before ? short((60000 * (version - then)) / (now - before)) : "–";
}

async function modelRow(name) {
  let told;
  try {
    told = await request("GET", `/v1/models/${name}`);
  } catch (error) {
    return cells(name, error.message);
  }
  const snapshot = told.snapshot_time ? `version ${told.snapshot_version.toLocaleString()}, ${time(told.snapshot_time)}` : "none";
  const stored = told.bytes === undefined ? "–" : bytes(told.bytes);
  return cells(name, told.version.toLocaleString(), rate(name, told.version), told.examples.toLocaleString(), snapshot, stored);
}

async function operate() {
  if (!$("operate").open) return;
  const { models } = await request("GET", "/v1/models");
  const rows = [];
  for (const name of models.slice(0, MAX_MODELS)) rows.push(await modelRow(name));
  $("models").tBodies[0].replaceChildren(...rows);
  const { aliases } = await request("GET", "/v1/aliases");
  const named = Object.entries(aliases).map(([alias, model]) => `${alias} stands for ${model}`);
  const others = models.length > MAX_MODELS ? `${models.length - MAX_MODELS} more models are not shown. ` : "";
  $("aliases").textContent = others + (named.length ? `Aliases: ${named.join(", ")}.` : "There are no aliases.");
  $("quota").replaceChildren(...Object.entries(about.quota ?? {}).map(([what, { used, most }]) => {
    const pair = element("div");
    pair.append(element("dt", what), element("dd", used.toLocaleString() + (most === null ? ", no quota" : ` of ${most.toLocaleString()}`)));
    return pair;
  }));
  await showAudit();
}

async function showAudit() {
  let lines = [];
  try {
    // Each line is an edit, or the end of an erasure: those of the last versions are near the end.
    let after = Math.max(0, about.version - MAX_LINES);
    for (;;) {
      const more = (await request("GET", modelPath(`/audit?after=${after}`))).lines;
      if (!more.length) break;
      lines = [...lines, ...more].slice(-MAX_LINES);
      after = more[more.length - 1].number;
    }
    $("audit-hint").textContent = lines.length ? "" : "There are none yet.";
  } catch (error) {
    $("audit-hint").textContent = error.status === 403 ? "The audit record needs a token with the role audit." : error.message;
  }
  $("audit").tBodies[0].replaceChildren(...lines.reverse().map((line) => cells(
    time(line.at), line.token || "–", line.kind, line.rows.toLocaleString(), line.after.toLocaleString(),
  )));
}

async function snapshot() {
  const { version } = await request("POST", modelPath("/snapshot"));
  say(`A snapshot of version ${version.toLocaleString()} is on the disk.`);
  await operate();
}

async function refit() {
  const { version } = await request("POST", modelPath("/refit"), { op: newId() });
  await showModel();
  newest = version;
  say(`Refitted: version ${version.toLocaleString()}.`);
}

async function make() {
  const name = $("new-name").value.trim();
  const columns = $("new-columns").value.split(",").map((column) => column.trim()).filter((column) => column);
  await request("PUT", `/v1/models/${name}`, { columns });
  $("making").hidden = true;
  $("new").setAttribute("aria-expanded", "false");
  await showModels(name);
  say(`${name} is made. Teach it something.`);
}

const on = (id, event, work) => $(id).addEventListener(event, (happened) => {
  happened.preventDefault();
  busy(() => work(happened));
});

on("token-form", "submit", async () => {
  token = $("token").value.trim();
  $("token").value = "";
  await showModels();
});
on("ask", "submit", ask);
on("edit", "submit", (happened) => edit(happened.submitter ? happened.submitter.value : "learn"));
on("making", "submit", make);
on("model", "change", showModel);
on("look", "click", showModel);
on("snapshot", "click", snapshot);
on("refit", "click", refit);
$("operate").addEventListener("toggle", () => busy(operate));
$("new").addEventListener("click", () => {
  $("making").hidden = !$("making").hidden;
  $("new").setAttribute("aria-expanded", String(!$("making").hidden));
  if (!$("making").hidden) $("new-name").focus();
});
busy(() => showModels());
