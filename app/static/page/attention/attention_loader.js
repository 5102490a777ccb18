// Loads a sentence's attention: everything at once if it is small, else the shown kind layer by layer.

import { KINDS, Sentence } from "./attention_data.js";
import { modelNamed, modelOfPair } from "../service/models.js";

const MAX_WEIGHTS_PER_REQUEST = 200_000; // about 20 bytes each
const CHARACTERS_PER_TOKEN = 3; // an estimate for the first request, before the tokens are known

// For a pair that is not served, so that the request is sent and the service's error shown.
const UNKNOWN_MODEL = { architecture: { encoder_layers: 1, decoder_layers: 1, num_heads: 1 } };

export class AttentionLoader {
  /** @param api `get` and `post` of the service */
  constructor(api) {
    this.api = api;
    this.models = null;
  }

  /**
   * Loads the sentence of a request, with at least its tokens.
   * @param request {text, source, target, target_text}
   */
  async sentence(request, signal) {
    const { architecture: shape } = await this.model(request, signal);
    const tokens = Math.max(request.text.length, request.target_text?.length ?? 0) / CHARACTERS_PER_TOKEN;
    const estimatedWeights = tokens ** 2 * shape.num_heads * (shape.encoder_layers + 2 * shape.decoder_layers);
    const onlyTokens = { kinds: ["cross"], layers: [0], heads: [0] };
    const isLarge = estimatedWeights > MAX_WEIGHTS_PER_REQUEST;
    const response = await this.fetchAttention(request, isLarge ? onlyTokens : {}, signal);
    const model = await this.model(request, signal, response.model);
    const sentence = new Sentence(response, model.architecture);
    if (!isLarge) for (const kind of KINDS) sentence.add(kind, response.attention[kind], 0);
    return sentence;
  }

  /** Loads the missing layers of a kind, and calls `onPart` after each response. */
  async complete(sentence, request, kind, signal, onPart) {
    const missing = sentence.missing(kind);
    const batches = sentence.size(kind) <= MAX_WEIGHTS_PER_REQUEST ? [missing] : missing.map((layer) => [layer]);
    for (const layers of batches.filter((layers) => layers.length)) {
      const response = await this.fetchAttention(request, { kinds: [kind], layers }, signal);
      layers.forEach((layer, index) => sentence.add(kind, [response.attention[kind][index]], layer));
      onPart();
    }
  }

  fetchAttention(request, selection, signal) {
    return this.api.post("attention", { ...request, ...selection }, { signal });
  }

  /** The model of a pair, or of the response `name`. Reloads the models if it is none of the known ones: bundles may
   *  have been exchanged. */
  async model(pair, signal, name) {
    const lookup = () => this.models && (name ? modelNamed(this.models, name) : modelOfPair(this.models, pair));
    if (!lookup()) this.models = await this.api.get("models", { signal });
    return lookup() ?? UNKNOWN_MODEL;
  }
}
