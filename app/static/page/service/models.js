// Which model of GET /models serves a pair of languages, and which one made a response.

/** The model of a pair; of several the one of the fewest languages, as the service chooses. If none has the source,
 *  such as "auto", one for the target. @param {any[]} models @returns {any | undefined} */
export function modelOfPair(models, { source, target }) {
  const candidates = models.filter((model) => model.targets.includes(target)).sort(byLanguages);
  return candidates.find((model) => model.sources.includes(source)) ?? candidates[0];
}

/** The model that made a response; undefined if it is none of `models`.
 *  @param {any[]} models @param {string} name the response's: it names the direction and the weights, where a model of
 *  several directions names only the weights */
export function modelNamed(models, name) {
  return models.find(({ model }) => model.split("@")[1] === name.split("@")[1]);
}

function byLanguages(one, other) {
  return one.sources.length * one.targets.length - other.sources.length * other.targets.length;
}
