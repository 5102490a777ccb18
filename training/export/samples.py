"""Samples of a bundle: our own everyday sentences, of which it carries those whose translation no rounding can change.

A bundle contains its samples as text, so they must not come from a corpus whose licence forbids redistribution.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

import torch
from torch import Tensor
from torch.nn.utils.rnn import pad_sequence

from model.decoding.batch import Backend
from model.decoding.batch_invariance import UNIFORM_ROWS
from model.directions import Direction
from model.hypothesis import Limits
from model.languages import language_alone
from model.tokenizer import Tokenizers
from model.transformer import Transformer
from training.evaluation.translate import translate

MARGIN = 0.5
"""Nats by which the best token must lead the second at every step: far more than half precision or another processor
changes."""
SAMPLE_COUNT = 12

SENTENCES = {
    "en": """The red bus stops behind the old school. | My aunt keeps three white rabbits in the kitchen.
        | We drank cold milk after the long walk. | The little girl has a green umbrella.
        | Her father repairs bicycles in the morning. | The baker closes his shop at six o'clock.
        | There are two spoons next to the blue cup. | My cousin plays the piano every Sunday.
        | The library is between the bank and the market. | He put the letter under the yellow lamp.
        | Our neighbours have a very quiet dog. | The soup needs salt and a little milk.
        | I saw a big black horse near the bridge. | The teacher bought seven apples for the children.
        | The doctor lives on the third floor. | She found a small key in her old coat.
        | It snowed all night in our village. | They painted the kitchen door white.
        | The cat is sleeping on my warm coat. | Tomorrow I will help my mother in the garden.
        | The blue car belongs to my uncle. | We ate bread and cheese by the river.
        | His grandmother writes long letters. | The museum opens at ten on Saturday.
        | I can see the mountains from my bedroom. | The farmer has twelve cows and one horse.
        | Please put the flowers on the round table. | The boy is looking for his left shoe.
        | My sister works in a large hotel. | The clock in the kitchen has stopped.
        | We need eggs, butter and sugar for the cake. | The train to the city leaves in nine minutes.
        | There is a white boat near the island. | She sings while she cooks.
        | The old man feeds the birds every morning. | The student forgot his book on the bus.
        | There is a small church behind the hill. | The wind opened the window last night.
        | My friends are cooking fish for dinner. | The moon is very bright this evening.
        | The horse is old. | My hat is green. | The milk is cold. | Her uncle has a boat. | I have two brown dogs.
        | The village is small. | Where is the blue umbrella? | My cousin is a baker. | The kitchen is clean.
        | The bridge is very long. | He has a black coat. | The boy drinks milk. | Is the museum open?
        | My aunt is in the garden. | The window is open now. | The old church is small.""",
    "fr": """Le bus rouge s'arrête derrière la vieille école. | Ma tante garde trois lapins blancs dans la cuisine.
        | Nous avons bu du lait froid après la longue promenade. | La petite fille a un parapluie vert.
        | Son père répare des vélos le matin. | Le boulanger ferme son magasin à six heures.
        | Il y a deux cuillères à côté de la tasse bleue. | Mon cousin joue du piano tous les dimanches.
        | La bibliothèque est entre la banque et le marché. | Il a mis la lettre sous la lampe jaune.
        | Nos voisins ont un chien très calme. | La soupe a besoin de sel et d'un peu de lait.
        | J'ai vu un grand cheval noir près du pont. | Le professeur a acheté sept pommes pour les enfants.
        | Le médecin habite au troisième étage. | Elle a trouvé une petite clé dans son vieux manteau.
        | Il a neigé toute la nuit dans notre village. | Ils ont peint la porte de la cuisine en blanc.
        | Le chat dort sur mon manteau chaud. | Demain, j'aiderai ma mère dans le jardin.
        | La voiture bleue appartient à mon oncle. | Nous avons mangé du pain et du fromage au bord de la rivière.
        | Sa grand-mère écrit de longues lettres. | Le musée ouvre à dix heures le samedi.
        | Je vois les montagnes depuis ma chambre. | Le fermier a douze vaches et un cheval.
        | Mettez les fleurs sur la table ronde, s'il vous plaît. | Le garçon cherche sa chaussure gauche.
        | Ma sœur travaille dans un grand hôtel. | L'horloge de la cuisine s'est arrêtée.
        | Il nous faut des œufs, du beurre et du sucre pour le gâteau. | Le train pour la ville part dans neuf minutes.
        | Il y a un bateau blanc près de l'île. | Elle chante pendant qu'elle cuisine.
        | Le vieil homme nourrit les oiseaux chaque matin. | L'étudiant a oublié son livre dans le bus.
        | Il y a une petite église derrière la colline. | Le vent a ouvert la fenêtre la nuit dernière.
        | Mes amis préparent du poisson pour le dîner. | La lune est très claire ce soir.
        | Le cheval est vieux. | Mon chapeau est vert. | Le lait est froid. | Son oncle a un bateau.
        | La soupe est trop chaude. | J'ai deux chiens bruns. | Le village est petit. | Où est le parapluie bleu ?
        | Mon cousin est boulanger. | La cuisine est propre. | Le pont est très long. | Il a un manteau noir.
        | Le garçon boit du lait. | Le musée est-il ouvert ? | Ma tante est dans le jardin.
        | Nous avons un chat blanc. | La fenêtre est ouverte maintenant. | La vieille église est petite.""",
    "de": """Der rote Bus hält hinter der alten Schule. | Meine Tante hält drei weiße Kaninchen in der Küche.
        | Wir tranken kalte Milch nach dem langen Spaziergang. | Das kleine Mädchen hat einen grünen Regenschirm.
        | Ihr Vater repariert morgens Fahrräder. | Der Bäcker schließt seinen Laden um sechs Uhr.
        | Neben der blauen Tasse liegen zwei Löffel. | Mein Vetter spielt jeden Sonntag Klavier.
        | Die Bibliothek ist zwischen der Bank und dem Markt. | Er legte den Brief unter die gelbe Lampe.
        | Unsere Nachbarn haben einen sehr ruhigen Hund. | Die Suppe braucht Salz und etwas Milch.
        | Ich sah ein großes schwarzes Pferd bei der Brücke. | Der Lehrer kaufte sieben Äpfel für die Kinder.
        | Der Arzt wohnt im dritten Stock. | Sie fand einen kleinen Schlüssel in ihrem alten Mantel.
        | In unserem Dorf hat es die ganze Nacht geschneit. | Sie haben die Küchentür weiß gestrichen.
        | Die Katze schläft auf meinem warmen Mantel. | Morgen helfe ich meiner Mutter im Garten.
        | Das blaue Auto gehört meinem Onkel. | Wir haben am Fluss Brot und Käse gegessen.
        | Seine Großmutter schreibt lange Briefe. | Das Museum öffnet am Samstag um zehn.
        | Ich kann von meinem Schlafzimmer aus die Berge sehen. | Der Bauer hat zwölf Kühe und ein Pferd.
        | Bitte stell die Blumen auf den runden Tisch. | Der Junge sucht seinen linken Schuh.
        | Meine Schwester arbeitet in einem großen Hotel. | Die Uhr in der Küche ist stehen geblieben.
        | Wir brauchen Eier, Butter und Zucker für den Kuchen. | Der Zug in die Stadt fährt in neun Minuten.
        | Bei der Insel liegt ein weißes Boot. | Sie singt, während sie kocht.
        | Der alte Mann füttert jeden Morgen die Vögel. | Der Student hat sein Buch im Bus vergessen.
        | Hinter dem Hügel steht eine kleine Kirche. | Der Wind hat letzte Nacht das Fenster geöffnet.
        | Meine Freunde kochen Fisch zum Abendessen. | Der Mond ist heute Abend sehr hell.
        | Das Pferd ist alt. | Mein Hut ist grün. | Die Milch ist kalt. | Ihr Onkel hat ein Boot.
        | Ich habe zwei braune Hunde. | Das Dorf ist klein. | Wo ist der blaue Regenschirm?
        | Mein Vetter ist Bäcker. | Die Küche ist sauber. | Die Brücke ist sehr lang.
        | Er hat einen schwarzen Mantel. | Der Junge trinkt Milch. | Ist das Museum geöffnet?
        | Meine Tante ist im Garten. | Das Fenster ist jetzt offen. | Die alte Kirche ist klein.""",
    "es": """El autobús rojo para detrás de la vieja escuela. | Mi tía tiene tres conejos blancos en la cocina.
        | Bebimos leche fría después del largo paseo. | La niña pequeña tiene un paraguas verde.
        | Su padre repara bicicletas por la mañana. | El panadero cierra su tienda a las seis.
        | Hay dos cucharas al lado de la taza azul. | Mi primo toca el piano todos los domingos.
        | La biblioteca está entre el banco y el mercado. | Puso la carta debajo de la lámpara amarilla.
        | Nuestros vecinos tienen un perro muy tranquilo. | La sopa necesita sal y un poco de leche.
        | Vi un gran caballo negro cerca del puente. | La maestra compró siete manzanas para los niños.
        | El médico vive en el tercer piso. | Encontró una llave pequeña en su viejo abrigo.
        | Nevó toda la noche en nuestro pueblo. | Pintaron de blanco la puerta de la cocina.
        | El gato duerme sobre mi abrigo caliente. | Mañana ayudaré a mi madre en el jardín.
        | El coche azul es de mi tío. | Comimos pan y queso junto al río. | Su abuela escribe cartas largas.
        | El museo abre a las diez los sábados. | Veo las montañas desde mi dormitorio.
        | El granjero tiene doce vacas y un caballo. | Ponga las flores en la mesa redonda, por favor.
        | El niño busca su zapato izquierdo. | Mi hermana trabaja en un hotel grande.
        | El reloj de la cocina se ha parado. | Necesitamos huevos, mantequilla y azúcar para el pastel.
        | El tren a la ciudad sale en nueve minutos. | Hay un barco blanco cerca de la isla.
        | Ella canta mientras cocina. | El anciano alimenta a los pájaros cada mañana.
        | El estudiante olvidó su libro en el autobús. | Hay una pequeña iglesia detrás de la colina.
        | El viento abrió la ventana anoche. | Mis amigos cocinan pescado para la cena.
        | La luna está muy brillante esta noche.
        | El caballo es viejo. | Mi sombrero es verde. | La leche está fría. | Su tío tiene un barco.
        | Tengo dos perros marrones. | El pueblo es pequeño. | ¿Dónde está el paraguas azul? | Mi primo es panadero.
        | La cocina está limpia. | El puente es muy largo. | Tiene un abrigo negro. | El niño bebe leche.
        | ¿Está abierto el museo? | Mi tía está en el jardín. | Tenemos un gato blanco.
        | La ventana está abierta ahora. | La vieja iglesia es pequeña.""",
    "zh": """红色的公共汽车停在旧学校后面。 | 我姑姑在厨房里养了三只白兔。 | 走了很久以后我们喝了冷牛奶。
        | 那个小女孩有一把绿色的雨伞。 | 她父亲早上修自行车。 | 面包师六点关店。 | 蓝色的杯子旁边有两个勺子。
        | 我表哥每个星期天弹钢琴。 | 图书馆在银行和市场中间。 | 他把信放在黄色的灯下面。
        | 我们的邻居有一只很安静的狗。 | 这个汤需要盐和一点牛奶。 | 我在桥边看见一匹大黑马。
        | 老师给孩子们买了七个苹果。 | 那位医生住在三楼。 | 她在旧大衣里找到一把小钥匙。
        | 我们村里下了一夜的雪。 | 他们把厨房的门漆成了白色。 | 猫睡在我暖和的大衣上。
        | 明天我要在花园里帮妈妈。 | 那辆蓝色的车是我叔叔的。 | 我们在河边吃了面包和奶酪。
        | 他奶奶写很长的信。 | 博物馆星期六十点开门。 | 我从卧室能看见山。 | 那个农民有十二头牛和一匹马。
        | 请把花放在圆桌上。 | 那个男孩在找他左脚的鞋。 | 我妹妹在一家大酒店工作。 | 厨房里的钟停了。
        | 做蛋糕需要鸡蛋、黄油和糖。 | 去城里的火车九分钟后开。 | 岛旁边有一条白色的船。
        | 她一边唱歌一边做饭。 | 那位老人每天早上喂鸟。 | 那个学生把书忘在公共汽车上了。
        | 山后面有一座小教堂。 | 昨晚风把窗户吹开了。 | 我的朋友们在做鱼当晚饭。 | 今晚的月亮很亮。
        | 这匹马很老。 | 我的帽子是绿色的。 | 牛奶很凉。 | 她的叔叔有一条船。 | 我有两只棕色的狗。 | 这个村子很小。
        | 蓝色的雨伞在哪里？ | 我的表哥是面包师。 | 厨房很干净。 | 这座桥很长。 | 他有一件黑色的大衣。
        | 男孩在喝牛奶。 | 博物馆开门吗？ | 我的阿姨在花园里。 | 我们有一只白猫。 | 窗户现在开着。
        | 那座老教堂很小。""",
}


_BATCH_SENTENCES = 64
"""Sentences that are tried together."""
_MAX_LOGITS = 4_000_000
"""Logits that a pass over known translations holds, unless one sentence has more."""


def own_sentences(language: str) -> list[str]:
    """Our sentences in `language`, regardless of region; empty if we have none."""
    text = SENTENCES.get(language_alone(language), "")
    return [" ".join(sentence.split()) for sentence in text.split("|") if sentence.strip()]


def choose_samples(
    model: Transformer,
    tokenizers: Tokenizers,
    limits: Limits,
    sentences: Sequence[str],
    wanted: int = SAMPLE_COUNT,
    direction: Direction | None = None,
    backend: Backend | None = None,
) -> tuple[list[dict[str, Any]], float | None]:
    """The first `wanted` of `sentences` that the model translates to their end with a margin of at least `MARGIN`, or
    all if there are fewer; in config.json's format. `direction`: of a model of several. `backend`: what decodes, if
    that is not to be the model's own.

    If there are none, the sentence with the largest margin alone, whose translation may end at its limit, and that
    margin in nats; otherwise None. Raises ValueError if no sentence fits.
    """
    fitting = _fitting(tokenizers, limits, sentences, direction)
    if not fitting:
        raise ValueError(f"none of the sentences to take samples from has 1 to {limits.max_source} tokens")
    chosen, first = list[dict[str, Any]](), list[dict[str, Any]]()
    for start in range(0, len(fitting), _BATCH_SENTENCES):
        some = fitting[start : start + _BATCH_SENTENCES]
        samples = _translated_samples(backend or model, tokenizers, limits, some, direction)
        first = first or samples
        chosen += _certain_samples(model, samples, direction)
        if len(chosen) >= wanted:
            break
    if chosen:
        return chosen[:wanted], None
    leads = [_margins_of(model, [sample], _ended(model, sample))[0] for sample in first]
    row = max(range(len(first)), key=leads.__getitem__)
    return [first[row]], leads[row]


def uncertainty_warning(lead: float) -> str:
    """What to say of a bundle whose only sample has this margin; see `choose_samples`."""
    fault = f"no sample ends and leads by {MARGIN} nats at every token, the surest by {lead:.2g}"
    if lead >= MARGIN:
        fault = "no sample comes to its end"
    return f"warning: {fault}: on another processor or at another precision the service may refuse this bundle"


def _fitting(
    tokenizers: Tokenizers, limits: Limits, sentences: Sequence[str], direction: Direction | None
) -> list[str]:
    longest = (direction.limits(limits) if direction else limits).max_source
    return [text for text in sentences if 0 < len(tokenizers.source.encode_source(text)) <= longest]


def _translated_samples(
    backend: Backend | Transformer,
    tokenizers: Tokenizers,
    limits: Limits,
    sentences: Sequence[str],
    direction: Direction | None,
) -> list[dict[str, Any]]:
    """A sample in config.json's format for each sentence."""
    source_prefix, target_prefix = direction.prefixes if direction else ((), ())
    longest = max((len(tokenizers.source.encode_source(text)) for text in sentences), default=1) + len(source_prefix)
    limits = limits.for_sources(longest, len(target_prefix))
    found = translate(backend, tokenizers, limits, sentences, UNIFORM_ROWS, direction=direction)
    return [
        {
            "source": source,
            "target": target,
            "source_ids": [*source_prefix, *tokenizers.source.encode_source(source)],
            "target_ids": [*target_prefix, *ids],
            **({"target_prefix": [*target_prefix]} if target_prefix else {}),
        }
        for source, target, ids in zip(sentences, found.texts, found.ids, strict=True)
    ]


def _certain_samples(
    model: Transformer, samples: Sequence[dict[str, Any]], direction: Direction | None
) -> Iterator[dict[str, Any]]:
    # A translation without an end, or without anything before it, is not a useful example.
    least = 1 + len(direction.target_prefix if direction else ())
    whole = [sample for sample in samples if _ended(model, sample) and len(sample["target_ids"]) > least]
    for sample, lead in zip(whole, _margins_of(model, whole, True), strict=True):
        if lead >= MARGIN:
            yield sample


def _ended(model: Transformer, sample: Mapping[str, Any]) -> bool:
    return bool(sample["target_ids"][-1] == model.config.eos_id)


def _margins_of(model: Transformer, samples: Sequence[dict[str, Any]], ended: bool) -> list[float]:
    """The margin of each sample, all of one direction."""
    given = len(samples[0].get("target_prefix", ())) if samples else 0
    pairs = [(sample["source_ids"], sample["target_ids"][: -1 if ended else None]) for sample in samples]
    return margins(model, pairs, ended, given)


@torch.inference_mode()
def margins(
    model: Transformer, pairs: Sequence[tuple[list[int], list[int]]], ended: bool = True, given: int = 0
) -> list[float]:
    """The margin of each pair of source and target, given without end symbols, computed in one parallel pass.

    It is the smallest lead, in nats, of a target token over the best other token at its position; negative if another
    is likelier. Includes the end symbol if the targets `ended`, and leaves out the first `given` tokens. Raises
    ValueError if the model overflows.
    """
    model.eval()
    # A pass computes the logits of all its positions.
    longest = 1 + max((len(target) for _, target in pairs), default=0)
    together = max(1, _MAX_LOGITS // (longest * model.config.target_vocab_size))
    parts = (pairs[at : at + together] for at in range(0, len(pairs), together))
    return [margin for part in parts for margin in _margins(model, part, ended, given)]


def _margins(
    model: Transformer, pairs: Sequence[tuple[list[int], list[int]]], ended: bool, given: int
) -> Iterator[float]:
    config = model.config

    def padded(sequences: Iterable[list[int]]) -> Tensor:
        tensors = [torch.tensor(ids, dtype=torch.long) for ids in sequences]
        return pad_sequence(tensors, batch_first=True, padding_value=config.pad_id).to(model.output.weight.device)

    src = padded([*source, config.eos_id] if config.source_eos else source for source, _ in pairs)  # [pairs, source]
    tgt_in = padded([config.bos_id, *target] for _, target in pairs)  # [pairs, target]
    tgt_out = padded([*target, config.eos_id] for _, target in pairs)
    logits = model(src, tgt_in).float()  # [pairs, target, vocabulary]
    if not all(map(math.isfinite, map(float, torch.aminmax(logits)))):
        raise ValueError("the model's logits are not finite numbers: some of its weights are far too large")
    chosen = tgt_out[..., None]
    lead = logits.gather(-1, chosen) - logits.scatter_(-1, chosen, -torch.inf).amax(-1, keepdim=True)
    lead = lead[..., 0].masked_fill(tgt_out == config.pad_id, torch.inf)  # [pairs, target]
    if not ended:
        lead = lead.masked_fill(tgt_out == config.eos_id, torch.inf)
    yield from (float(least) for least in lead[:, given:].amin(-1))
