// Makes every call of DeepL's own client for Node, and prints what each one returns or throws.
//
//     node tests/support/deepl_node.mjs URL FOLDER      after `npm ci` in tests/; FOLDER is for its files
import fs from "node:fs";
import path from "node:path";
import { DeepLClient, GlossaryEntries } from "deepl-node";

const [url, folder] = process.argv.slice(2);
const client = new DeepLClient("any key", { serverUrl: `${url}/deepl`, maxRetries: 0 });
const at = (name) => path.join(folder, name);
const entries = (terms) => new GlossaryEntries({ entries: terms });
const found = {};

/** Keeps what a call returned, or its error, under the method's name and `what`. */
async function call(method, parameters, what = "") {
  const name = what ? `${method}, ${what}` : method;
  try {
    const returned = await client[method](...parameters);
    found[name] = returned === undefined ? "done" : returned;
    return returned;
  } catch (error) {
    found[name] = `${error.constructor.name}: ${error.message}`;
  }
}

for (const method of ["getUsage", "getSourceLanguages", "getTargetLanguages", "getGlossaryLanguagePairs"]) {
  await call(method, []);
}

await call("translateText", ["Hello.", null, "fr"]);
await call("translateText", [["Hello.", "How are you?"], "en", "fr"], "several");
const options = {
  splitSentences: "nonewlines", preserveFormatting: true, tagHandling: "xml", tagHandlingVersion: "v2", outlineDetection: true,
  context: "A letter.", modelType: "quality_optimized", nonSplittingTags: ["b"], splittingTags: ["p"], ignoreTags: ["x"],
  formality: "prefer_more", extraRequestParameters: { enable_beta_languages: "1" },
};
await call("translateText", ["<p>Hello, <x>my friend</x>!</p>", "en", "fr", options], "with all options");
await call("translateText", ["Hello.", "en", "fr", { customInstructions: ["Be brief."] }], "with instructions");
await call("translateText", ["Hello.", "en", "fr", { styleRule: "a" }], "with a style rule");
await call("translateText", ["Hello.", "en", "fr", { formality: "more" }], "formally");

fs.writeFileSync(at("letter.txt"), "Hello.\n");
const handle = await call("uploadDocument", [at("letter.txt"), "en", "fr"]);
await call("isDocumentTranslationComplete", [handle]);
await call("getDocumentStatus", [handle]);
await call("downloadDocument", [handle, at("letter.fr.txt")]);
await call("translateDocument", [Buffer.from("Bye.\n"), at("bye.fr.txt"), null, "fr", { filename: "bye.txt" }]);
await call("uploadDocument", [at("letter.txt"), "en", "fr", { styleRule: "a" }], "with a style rule");
found.documents = ["letter.fr.txt", "bye.fr.txt"].map((name) => fs.readFileSync(at(name), "utf8"));

const glossary = await call("createGlossary", ["Animals", "en-US", "fr", entries({ cat: "félin" })]);
fs.writeFileSync(at("words.csv"), 'dog,"clé ""bard"""\n');
const words = await call("createGlossaryWithCsv", ["Words", "en", "fr", at("words.csv")]);
await call("getGlossary", [glossary.glossaryId]);
await call("listGlossaries", []);
await call("getGlossaryEntries", [words]);
await call("translateText", ["The cat sleeps.", "en", "fr", { glossary }], "with a glossary");
const ids = [words, glossary].map((each) => each.glossaryId);
await call("translateText", ["The cat sleeps.", "en", "fr", { glossaryIds: ids }], "with glossaries");
await call("deleteGlossary", [glossary]);
await call("deleteGlossary", [words], "the other");
await call("getGlossary", ["none"], "that is not there");

const dictionary = (terms, source = "en", target = "fr") => ({
  sourceLangCode: source, targetLangCode: target, entries: entries(terms),
});
const one = await call("createMultilingualGlossary", ["One", [dictionary({ cat: "félin" }), dictionary({ chat: "cat" }, "fr", "en")]]);
const two = await call("createMultilingualGlossaryWithCsv", ["Two", "en", "fr", "cat,félin\n"]);
await call("getMultilingualGlossary", [one.glossaryId]);
await call("listMultilingualGlossaries", []);
await call("updateMultilingualGlossaryName", [one, "More"]);
await call("updateMultilingualGlossaryDictionary", [one, dictionary({ dog: "clébard" })]);
await call("updateMultilingualGlossaryDictionaryWithCsv", [one, "en", "fr", "tree,arbuste\n"]);
const read = () => client.getMultilingualGlossaryDictionaryEntries(one, "en", "fr").then((all) => all.entries.entries());
found.updated = await read();
await call("replaceMultilingualGlossaryDictionary", [one, dictionary({ house: "baraque" })]);
found.replaced = await read();
await call("replaceMultilingualGlossaryDictionaryWithCsv", [one, "en", "fr", "house,cabane\n"]);
await call("getMultilingualGlossaryDictionaryEntries", [one, "en", "fr"]);
await call("deleteMultilingualGlossaryDictionary", [one, "fr", "en"]);
await call("deleteMultilingualGlossary", [one]);
await call("deleteMultilingualGlossary", [two], "the other");

const unit = (text, translation, source = "en", target = "fr") =>
  `<tu><tuv xml:lang="${source}"><seg>${text}</seg></tuv><tuv xml:lang="${target}"><seg>${translation}</seg></tuv></tu>`;
const tmx = (...units) => `<tmx version="1.4"><header srclang="en"/><body>${units.join("")}</body></tmx>`;
fs.writeFileSync(at("one.tmx"), tmx(unit("Open", "Ouvrir"), unit("Close", "Fermer"), unit("Open", "Abrir", "en", "pt")));
const imported = await call("importTranslationMemoryFromFilepath", [at("one.tmx"), { displayName: "One" }]);
const [memory] = await call("listTranslationMemories", [0, 10]);
found.isImported = imported.results[0].translationMemoryId === memory.translationMemoryId;
await call("getTranslationMemory", [memory]);
await call("listTranslationMemorySegments", [memory, { pageSize: 1 }]);
await call("listTranslationMemorySegments", [memory, { pageCursor: found["listTranslationMemorySegments"].nextPageCursor }], "after");
await call("listTranslationMemorySegments", [memory, { filterText: "FERM", filterCaseSensitive: false }], "with a text");
await call("translateText", ["Open", "en", "fr", { translationMemory: memory, translationMemoryThreshold: 80 }], "with a memory");
const created = await call("createTranslationMemoryImport", ["bad.tmx", 1]);
await call("getTranslationMemoryJob", [created.jobId]);
await call("uploadTranslationMemoryFile", [created, Buffer.from("x")]);
await call("isTranslationMemoryJobComplete", [created.jobId]);
await call("exportTranslationMemoryToFilepath", [memory, at("export.tmx")]);
const started = await call("createTranslationMemoryExport", [memory]);
await call("downloadTranslationMemoryExport", [await client.getTranslationMemoryJob(started.jobId), at("again.tmx")]);
found.exports = ["export.tmx", "again.tmx"].map((name) => fs.readFileSync(at(name), "utf8").match(/<seg>.*?<\/seg>/g).join(""));
await call("deleteTranslationMemory", [memory]);

await call("rephraseText", ["Hello.", "en-US"]);
await call("getAllStyleRules", [0, 10, true]);
await call("createStyleRule", [{ name: "a", language: "fr" }]);
for (const method of ["getStyleRule", "deleteStyleRule"]) await call(method, ["a"]);
await call("updateStyleRuleName", ["a", "b"]);
await call("updateStyleRuleConfiguredRules", ["a", {}]);
const instruction = { label: "a", prompt: "b" };
await call("createStyleRuleCustomInstruction", ["a", instruction]);
for (const method of ["getStyleRuleCustomInstruction", "deleteStyleRuleCustomInstruction"]) await call(method, ["a", "b"]);
await call("updateStyleRuleCustomInstruction", ["a", "b", instruction]);

const classes = [DeepLClient, Object.getPrototypeOf(DeepLClient)];
const methods = classes.flatMap((each) => Object.getOwnPropertyNames(each.prototype)).filter((name) => !/^(construct|internal)/.test(name));
found.uncalled = methods.filter((name) => !(name in found));
console.log(JSON.stringify(found));
