// Asks the service for a sentence's attention: at once where it is small, else what is shown, a layer at a time.

import { KINDS, Sentence } from "./attention_data.js";

const MOST_AT_ONCE = 200_000; // weights in one answer, each of some twenty bytes
const CHARACTERS_A_TOKEN = 3; // a guess at the first request, when the tokens are not known yet

// The pair is not served, and the service says it best.
const UNKNOWN = { architecture: { encoder_layers: 1, decoder_layers: 1, num_heads: 1 } };

export class Loading {
  /** @param api `get` and `post` of the service */
  constructor(api) {
    this.api = api;
    this.models = null;
  }

  /**
   * The sentence of a request, with its tokens at least.
   * @param asked {text, source, target, target_text}
   */
  async sentence(asked, signal) {
    const { architecture: shape } = await this.model(asked, signal);
    const tokens = Math.max(asked.text.length, asked.target_text?.length ?? 0) / CHARACTERS_A_TOKEN;
    const guess = tokens ** 2 * shape.num_heads * (shape.encoder_layers + 2 * shape.decoder_layers);
    const tokensAlone = { kinds: ["cross"], layers: [0], heads: [0] };
    const isLarge = guess > MOST_AT_ONCE;
    const answer = await this.ask(asked, isLarge ? tokensAlone : {}, signal);
    const model = await this.model(asked, signal, answer.model);
    const sentence = new Sentence(answer, model.architecture);
    if (!isLarge) for (const kind of KINDS) sentence.add(kind, answer.attention[kind], 0);
    return sentence;
  }

  /** Brings what is missing of a kind; `came` is called after each part. */
  async complete(sentence, asked, kind, signal, came) {
    const missing = sentence.missing(kind);
    const parts = sentence.size(kind) <= MOST_AT_ONCE ? [missing] : missing.map((layer) => [layer]);
    for (const layers of parts.filter((part) => part.length)) {
      const answer = await this.ask(asked, { kinds: [kind], layers }, signal);
      layers.forEach((layer, place) => sentence.add(kind, [answer.attention[kind][place]], layer));
      came();
    }
  }

  ask(asked, selection, signal) {
    return this.api.post("attention", { ...asked, ...selection }, { signal });
  }

  /** The model of a pair; with a name, as it is now if another than that was known: bundles may have been exchanged. */
  async model({ source, target }, signal, name) {
    const find = () => this.models?.find((each) => each.source === source && each.target === target);
    if (!this.models || (name && find()?.model !== name)) this.models = await this.api.get("models", { signal });
    return find() ?? UNKNOWN;
  }
}
