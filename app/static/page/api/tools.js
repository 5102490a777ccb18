// What to enter in which tool. docs/tools.md has the same tools and addresses, and says what was read of each.
//
// A field is a label, as the tool has it, and a value. CHOOSE, ADDRESS, KEY and `lines` have labels of the page's,
// for what has no name in the tool, or none that is known. In values stands
//   {url}, {host}      for the address of the service, with and without its scheme
//   {origin}           for the address without a path, which a proxy may have added
//   {site}, {port}     for its two parts, where a tool has a field for each
//   {own}              for the address of our own API
//   {key}              for a key; if the service requires none, for nothing, and a line with more than that is left out
//   {any}              for a key where there must be one; if the service requires none, for anything
//   {?token}, {?key}   for a key in the query of an address, if the service requires one
// A tool without any of these sends no key.

const CHOOSE = "api.choose"; // among the translators that the tool has
const ADDRESS = "api.address";
const KEY = "api.key";

/**
 * @typedef {object} Tool
 * @property {string} name as in docs/tools.md
 * @property {string} api its dialect, as INTERLINEAR_ROOT_API names it; "" for our own API
 * @property {[string, string][]} fields
 * @property {string[]} [also] other names by which it is found
 * @property {boolean} [isRoot] whether the tool takes no path, so that its API has to be at the root
 * @property {"always" | "elsewhere"} [https] whether it asks by https; "elsewhere": not on this machine
 * @property {string[]} [prompts] tools whose prompts for a large model are understood
 * @property {string} [note] the text about what does not work
 */

/** Lines of a configuration or of a program. */
const lines = (...values) => ["api.lines", values.join("\n")];

/** @returns {Tool} */
const tool = (name, api, fields, more = {}) => ({ name, api, fields, ...more });

const LIBRETRANSLATE = "libretranslate";
const LIBRETRANSLATE_URL = "{url}/libretranslate";
const LIBRETRANSLATE_TRANSLATE = "{url}/libretranslate/translate";
const DEEPL = "deepl";
const DEEPL_TRANSLATE = "{url}/deepl/v2/translate";
const DEEPLX = "deeplx";
const DEEPLX_TRANSLATE = "{url}/deeplx/translate";
const DEEPLX_TOKEN = "{url}/deeplx/translate{?token}";
const MTRANSERVER = "mtranserver";
const MTRANSERVER_TRANSLATE = "{url}/mtranserver/translate";

const CALIBRE = `{
    "name": "Interlinear",
    "languages": {"source": {"English": "en"}, "target": {"French": "fr"}},
    "request": {
        "url": "{url}/libretranslate/translate",
        "method": "POST",
        "headers": {"Content-Type": "application/json"},
        "data": {"q": "<text>", "source": "<source>", "target": "<target>", "api_key": "{any}"}
    },
    "response": "response[\\"translatedText\\"]"
}`;

/** @type {Tool[]} */
export const TOOLS = [
  tool("Weblate", LIBRETRANSLATE, [
    [CHOOSE, "LibreTranslate"],
    ["API URL", "{url}/libretranslate/"],
    ["API key", "{key}"],
  ], { note: "api.note.german" }),
  tool("Weblate LTEngine", LIBRETRANSLATE, [
    [CHOOSE, "LTEngine"],
    ["API URL", "{url}/libretranslate/"],
    ["API key", "{key}"],
  ], { note: "api.note.german" }),
  tool("Mastodon", LIBRETRANSLATE, [
    lines(`LIBRE_TRANSLATE_ENDPOINT=${LIBRETRANSLATE_URL}`, "LIBRE_TRANSLATE_API_KEY={key}"),
  ]),
  tool("Discourse", LIBRETRANSLATE, [
    [CHOOSE, "LibreTranslate"],
    ["translator_libretranslate_endpoint", LIBRETRANSLATE_URL],
    ["translator_libretranslate_api_key", "{key}"],
  ], { note: "api.note.simplified" }),
  tool("Rocket.Chat", LIBRETRANSLATE, [
    [CHOOSE, "LibreTranslate"],
    ["AutoTranslate_LibreTranslateAPIURL", LIBRETRANSLATE_URL],
    ["AutoTranslate_LibreTranslateAPIKey", "{key}"],
  ]),
  tool("Mattermost", LIBRETRANSLATE, [
    [CHOOSE, "LibreTranslate"],
    [ADDRESS, LIBRETRANSLATE_URL],
    [KEY, "{key}"],
  ], { note: "api.note.closed" }),
  tool("Nextcloud", LIBRETRANSLATE, [
    ["Host", "{site}"],
    ["Port", "{port}"],
    ["API-Key", "{key}"],
  ], { isRoot: true }),
  tool("Akkoma", LIBRETRANSLATE, [
    lines(
      'config :pleroma, :libre_translate, url: "{origin}"',
      'config :pleroma, :libre_translate, api_key: "{key}"',
    ),
  ], { isRoot: true }),
  tool("Sharkey", LIBRETRANSLATE, [
    ["LibreTranslate URL", LIBRETRANSLATE_TRANSLATE],
    [KEY, "{key}"],
  ]),
  tool("Dialect", LIBRETRANSLATE, [
    [CHOOSE, "LibreTranslate"],
    ["Instance URL", "{host}/libretranslate"],
    ["API Key", "{key}"],
  ], { https: "elsewhere" }),
  tool("Subtitle Edit", LIBRETRANSLATE, [
    [CHOOSE, "LibreTranslate"],
    ["URL", "{url}/libretranslate/"],
    ["API key", "{key}"],
  ]),
  tool("Lingarr", LIBRETRANSLATE, [
    [CHOOSE, "LibreTranslate"],
    ["Address", LIBRETRANSLATE_URL],
    ["API key (optional)", "{key}"],
  ]),
  tool("TranslateYou", LIBRETRANSLATE, [
    [CHOOSE, "LibreTranslate"],
    ["Instance", "{url}/libretranslate/"],
    ["API key", "{key}"],
  ]),
  tool("Translate for Zotero", LIBRETRANSLATE, [
    [CHOOSE, "LibreTranslate"],
    ["API Endpoint", LIBRETRANSLATE_URL],
    ["Secret", "{key}"],
  ], { note: "api.note.hyphen" }),
  tool("TWP (Translate Web Pages)", LIBRETRANSLATE, [
    ["Your Server URL", LIBRETRANSLATE_TRANSLATE],
    ["Your API key", "{any}"],
  ], { note: "api.note.detects" }),
  tool("SillyTavern", LIBRETRANSLATE, [
    [CHOOSE, "Libre"],
    ["Libre API URL", LIBRETRANSLATE_TRANSLATE],
    ["Libre API Key", "{key}"],
  ]),
  tool("Crow Translate", LIBRETRANSLATE, [
    [CHOOSE, "LibreTranslate"],
    [ADDRESS, LIBRETRANSLATE_URL],
    ["API key", "{key}"],
  ], { note: "api.note.mozhi" }),
  tool("SearXNG", LIBRETRANSLATE, [
    lines(`base_url: ${LIBRETRANSLATE_URL}`, "api_key: {key}"),
  ]),
  tool("Translate for Obsidian", LIBRETRANSLATE, [["Host", LIBRETRANSLATE_URL]], { also: ["Obsidian"] }),
  tool("wagtail-localize", LIBRETRANSLATE, [
    ["LIBRETRANSLATE_URL", LIBRETRANSLATE_URL],
    ["API_KEY", "{any}"],
  ], { note: "api.note.seconds10" }),
  tool("RSSBox", LIBRETRANSLATE, [
    ["Server URL", LIBRETRANSLATE_URL],
    ["API Key (if required)", "{key}"],
  ]),
  tool("LiveCaptions-Translator", LIBRETRANSLATE, [
    [CHOOSE, "LibreTranslate"],
    ["API Url", LIBRETRANSLATE_TRANSLATE],
    ["API Key", "{key}"],
  ], { note: "api.note.seconds8" }),
  tool("Linguist", LIBRETRANSLATE, [
    lines(`apiPath = "${LIBRETRANSLATE_TRANSLATE}"`, 'apiKey = "{key}"'),
  ], { note: "api.note.origin" }),
  tool("FreedomTranslate for WordPress", LIBRETRANSLATE, [
    [CHOOSE, "LibreTranslate API"],
    ["API Server URL", LIBRETRANSLATE_TRANSLATE],
    ["API Secret Key", "{key}"],
  ]),
  tool("Calibre's Ebook Translator", LIBRETRANSLATE, [["api.template", CALIBRE]]),
  tool("Strapi's translate plugin", LIBRETRANSLATE, [
    lines(`apiUrl: '${LIBRETRANSLATE_URL}',`, "apiKey: '{key}',"),
  ], { note: "api.note.hyphen" }),
  tool("i18n Ally", LIBRETRANSLATE, [
    ["i18n-ally.translate.libre.apiRoot", LIBRETRANSLATE_URL],
  ], { also: ["VS Code"] }),
  tool("translate (npm)", LIBRETRANSLATE, [
    lines(`Translate({ engine: "libre", url: "${LIBRETRANSLATE_TRANSLATE}", key: "{any}" })`),
  ]),
  tool("LinguaCafe", LIBRETRANSLATE, [["LibreTranslate host", LIBRETRANSLATE_TRANSLATE]]),

  tool("Weblate DeepL", DEEPL, [
    [CHOOSE, "DeepL"],
    ["API URL", "{url}/deepl/v2"],
    ["API key", "{any}"],
  ], { note: "api.note.german" }),
  tool("Subtitle Edit DeepL", DEEPL, [
    [CHOOSE, "DeepL V2 translate"],
    ["URL", "{origin}"],
    ["API key", "{any}"],
  ], { isRoot: true }),
  tool("Sharkey DeepL", DEEPL, [
    [CHOOSE, "DeepLX mode"],
    [ADDRESS, DEEPL_TRANSLATE],
    [KEY, "{any}"],
  ]),
  tool("LiveCaptions-Translator DeepL", DEEPL, [
    [CHOOSE, "DeepL"],
    ["API Url", DEEPL_TRANSLATE],
    ["API Key", "{key}"],
  ], { note: "api.note.seconds8" }),
  tool("LibreOffice", DEEPL, [
    ["API URL", `${DEEPL_TRANSLATE}?tag_handling=html`],
    ["Authentication key", "{any}"],
  ], { note: "api.note.silent" }),
  tool("Easydict", DEEPL, [
    [CHOOSE, "DeepL"],
    ["API Endpoint", DEEPL_TRANSLATE],
    ["Auth Key", "{any}"],
    ["API Usage Priority", "Auth Key Only"],
  ]),
  tool("KISS Translator DeepL", DEEPL, [
    [CHOOSE, "DeepL"],
    ["URL", DEEPL_TRANSLATE],
    ["KEY", "{key}"],
  ]),
  tool("deepl-dotnet", DEEPL, [
    lines('ServerUrl = "{url}/deepl"'),
    [KEY, "{any}"],
  ]),
  tool("deepl-php", DEEPL, [
    lines("'server_url' => '{url}/deepl'"),
    [KEY, "{any}"],
  ]),
  tool("deepl-rb", DEEPL, [
    lines("config.host = '{url}/deepl'"),
    [KEY, "{any}"],
  ]),
  tool("deepl-rs", DEEPL, [], { note: "api.note.fixed" }),
  tool("deepl-cli", DEEPL, [
    ["api.baseUrl", "{url}/deepl"],
    [KEY, "{any}"],
  ], { https: "elsewhere" }),
  tool("LinguaCafe DeepL", DEEPL, [
    ["DeepL host", "{url}/deepl/v2"],
    ["DeepL API key", "{any}"],
  ]),

  tool("Subtitle Edit DeepLX", DEEPLX, [
    [CHOOSE, "DeepLX translate"],
    ["URL", "{origin}"],
  ], { isRoot: true }),
  tool("Sharkey DeepLX", DEEPLX, [
    [CHOOSE, "DeepLX mode"],
    [ADDRESS, DEEPLX_TOKEN],
    [KEY, ""],
  ]),
  tool("SillyTavern DeepLX", DEEPLX, [
    [CHOOSE, "DeepLX"],
    ["DeepLX API URL", DEEPLX_TOKEN],
  ]),
  tool("Pot DeepLX", DEEPLX, [
    [CHOOSE, "DeepL"],
    ["Service Type", "DeepLX"],
    ["DeepLX URL", DEEPLX_TOKEN],
  ]),
  tool("KISS Translator DeepLX", DEEPLX, [
    [CHOOSE, "DeepLX"],
    ["URL", DEEPLX_TRANSLATE],
    ["KEY", "{key}"],
  ]),
  tool("Translate for Zotero DeepLX", DEEPLX, [
    [CHOOSE, "DeepLX(API)"],
    ["EndPoint", DEEPLX_TOKEN],
  ], { note: "api.note.hyphen" }),
  tool("FluentRead DeepLX", DEEPLX, [
    [CHOOSE, "DeepLX"],
    ["服务地址", DEEPLX_TRANSLATE],
    ["访问令牌", "{key}"],
  ]),
  tool("PDFMathTranslate DeepLX", DEEPLX, [
    lines(`DEEPLX_ENDPOINT=${DEEPLX_TRANSLATE}`, "DEEPLX_ACCESS_TOKEN={key}"),
  ]),
  tool("LunaTranslator DeepLX", DEEPLX, [
    [CHOOSE, "DeepL"],
    ["类型", "DeepLX"],
    ["DeepLX api", DEEPLX_TOKEN],
  ]),
  tool("STranslate DeepLX", DEEPLX, [
    [CHOOSE, "DeepLX"],
    ["Api", DEEPLX_TRANSLATE],
    ["Token", "{key}"],
  ]),
  tool("Bob DeepLX", DEEPLX, [
    [CHOOSE, "DeepLX"],
    ["API", DEEPLX_TRANSLATE],
    ["Token", "{key}"],
  ], { note: "api.note.waits" }),

  tool("Translate for Zotero MTranServer", MTRANSERVER, [
    [CHOOSE, "MTranServer"],
    ["EndPoint", MTRANSERVER_TRANSLATE],
    ["Secret", "{key}"],
  ], { note: "api.note.hyphen" }),
  tool("LiveCaptions-Translator MTranServer", MTRANSERVER, [
    [CHOOSE, "MTranServer"],
    ["API Url", MTRANSERVER_TRANSLATE],
    ["API Key", "{key}"],
  ], { note: "api.note.seconds8" }),
  tool("STranslate MTranServer", MTRANSERVER, [
    [CHOOSE, "MTranServer"],
    ["Api", `${MTRANSERVER_TRANSLATE}{?token}`],
  ]),
  tool("MTranCode", MTRANSERVER, [["mtrancode.MTranServer.apiUrl", "{url}/mtranserver"]], { note: "api.note.empty" }),
  tool("Immersive Translate", "immersive", [
    [CHOOSE, "Custom API"],
    [ADDRESS, "{url}/immersive/translate{?token}"],
  ], { also: ["沉浸式翻译"], note: "api.note.closed" }),
  tool("KISS Translator", "kiss", [
    [CHOOSE, "Custom"],
    ["URL", "{url}/kiss/translate"],
    ["KEY", "{key}"],
  ], { also: ["KISS Translator aggregated", "简约翻译"] }),
  tool("hcfy", "hcfy", [["自定义翻译源", "{url}/hcfy/translate{?token}"]], { also: ["划词翻译"], note: "api.note.closed" }),

  tool("TranslationPlugin", "google", [
    [CHOOSE, "Google"],
    ["Server", "{url}/google"],
  ], { also: ["TranslationPlugin documentation", "JetBrains IntelliJ IDEA PyCharm"], note: "api.note.aloud" }),
  tool("Translate for Zotero Google", "google", [
    [CHOOSE, "Google"],
    ["Secret", "{url}/google"],
  ]),
  tool("KISS Translator Google", "google", [
    [CHOOSE, "Google"],
    ["URL", "{url}/google/translate_a/single"],
    ["KEY", "{key}"],
  ]),
  tool("Pot Google", "google", [
    [CHOOSE, "Google"],
    ["Custom URL", "{url}/google"],
  ]),
  tool("Comment Translate Google", "google", [["googleTranslate.mirror", "{url}/google"]], { also: ["VS Code"] }),
  tool("google-cloud-translate Python", "google", [
    lines('Client(client_options={"api_endpoint": "{url}/google"}, credentials=Credentials("{any}"))'),
  ]),
  tool("google-cloud-translate Node", "google", [
    lines(
      "GOOGLE_CLOUD_TRANSLATE_ENDPOINT={url}/google/language/translate/v2",
      'new Translate({key: "{any}"})',
    ),
  ]),
  tool("Weblate Azure", "azure", [
    [CHOOSE, "Azure AI Translator"],
    ["Base URL", "{host}/azure"],
    ["Endpoint URL", "{host}/azure"],
    ["API key", "{any}"],
  ], { https: "always", note: "api.note.german" }),
  tool("KISS Translator Azure", "azure", [
    [CHOOSE, "Azure AI"],
    ["URL", "{url}/azure/translate?api-version=3.0"],
    ["KEY", "{key}"],
  ]),
  tool("azure-ai-translation-text", "azure", [
    lines('TextTranslationClient(endpoint="{url}/azure", credential=AzureKeyCredential("{any}"))'),
  ], { also: ["azure-ai-translation-text 1", "azure-ai-translation-text 2"] }),
  tool("PDFMathTranslate Azure", "azure", [
    lines("AZURE_ENDPOINT={url}/azure", "AZURE_API_KEY={any}"),
  ]),
  tool("STranslate Microsoft", "azure", [
    [CHOOSE, "Microsoft"],
    ["Api", "{url}/azure"],
    ["Key", "{key}"],
  ]),

  tool("Subtitle Edit nllb-serve", "nllb", [
    [CHOOSE, "thammegowda-nllb-serve"],
    ["URL", "{url}/nllb"],
  ]),
  tool("Translate for Zotero nllb-serve", "nllb", [
    [CHOOSE, "NLLB"],
    ["nllb Model", "nllb-serve REST API"],
    ["nllb-serve EndPoint", "{url}/nllb"],
  ]),
  tool("XUnity.AutoTranslator", "plain", [
    lines("Endpoint=CustomTranslate", "Url={url}/plain/translate{?key}"),
  ], { note: "api.note.stops" }),
  tool("OmegaT FakeMT", "omegat", [
    ["URL", "{url}/omegat/translate{?key}"],
    ["Source Parameter", "source"],
    ["Target Parameter", "target"],
    ["Text Parameter", "text"],
    ["Result format", "JSON"],
    ["JSONPath expression", "$.translation"],
  ]),
];

/** Tools whose default prompts are understood: app/api/dialects/chat_prompts.py's. */
const PROMPTS = [
  "bilingual_book_maker", "Calibre's Ebook Translator", "deep-translator", "Discourse AI", "Easydict",
  "Immersive Translate", "kiss-translator", "Lingarr", "LiveCaptions-Translator", "llm-subtrans", "LunaTranslator",
  "NextAI Translator", "PDFMathTranslate", "Pot", "Read Frog", "Subtitle Edit", "Weblate",
  "XUnity.AutoLLMTranslator", "Zotero's pdf-translate",
];

/** @type {Tool} */
export const OWN = tool("", "", [[ADDRESS, "{own}/translate"], ["api.header", "Authorization: Bearer {key}"]]);

const other = (api, path, title, more = {}) =>
  tool(title, api, [
    [ADDRESS, `{url}/${path}`],
    [KEY, "{key}"],
  ], more);

/** Programs of one's own, or that are none of these, by the API that they speak. @type {Tool[]} */
export const OTHERS = [
  other(LIBRETRANSLATE, "libretranslate", "LibreTranslate"),
  other(DEEPL, "deepl", "DeepL"),
  other(DEEPLX, "deeplx/translate", "DeepLX", { also: ["a DeepLX script"] }),
  other(MTRANSERVER, "mtranserver", "MTranServer", { also: ["a MTranServer script"] }),
  other("google", "google", "Google Translate"),
  other("azure", "azure", "Azure Translator"),
  other("nllb", "nllb", "nllb-serve"),
  tool("OpenAI", "openai", [
    ["Base URL", "{url}/openai/v1"],
    ["API key", "{any}"],
    ["Model", "interlinear"],
  ], { prompts: PROMPTS, note: "api.note.prompts" }),
];
