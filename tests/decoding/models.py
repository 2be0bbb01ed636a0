"""Small models to decode: every prefix has logits of its own."""

import math

import torch


class Tree:
    """logits(prefix) of a sentence, for any function; the prefix begins with bos. Reorders like a cache."""

    def __init__(self, of, vocabulary, sentences=1, beam=1):
        self.of, self.vocabulary = of, vocabulary
        self.prefixes = [()] * (sentences * beam)
        self.sentences = [row // beam for row in range(sentences * beam)]

    def logits(self, tokens):
        self.prefixes = [
            (*prefix, token) for prefix, token in zip(self.prefixes, tokens.tolist(), strict=True)
        ]
        rows = zip(self.sentences, self.prefixes, strict=True)
        return torch.stack([self.of(sentence, prefix) for sentence, prefix in rows])

    def select(self, rows):
        assert [self.sentences[row] for row in rows.tolist()] == self.sentences
        self.prefixes = [self.prefixes[row] for row in rows.tolist()]


def dense(seed, vocabulary, spread=2.0, end=0.0):
    """Random logits for every prefix, those of eos (the last token) raised by `end`; float64, no ties."""
    known = {}

    def of(sentence, prefix):
        if (sentence, prefix) not in known:
            place = torch.Generator().manual_seed(hash((seed, sentence, prefix)) % 2**63)
            logits = spread * torch.randn(vocabulary, generator=place, dtype=torch.float64)
            logits[-1] += end
            known[sentence, prefix] = logits
        return known[sentence, prefix]

    return of


def automaton(seed, vocabulary, width, depth=5):
    """Random, with at most `width` arcs from a level to the next, ends included: so wide a beam sees all."""
    draw = torch.Generator().manual_seed(seed)

    def number(below):
        return int(torch.randint(below, (), generator=draw))

    arcs = {}  # prefix → tokens that are possible
    level = [()]
    for _ in range(depth):
        chosen = [(prefix, token) for prefix in level for token in range(vocabulary)]
        chosen = [chosen[place] for place in torch.randperm(len(chosen), generator=draw)[: 1 + number(width)]]
        for prefix, token in chosen:
            arcs.setdefault(prefix, []).append(token)
        level = [(*prefix, token) for prefix, token in chosen if token != vocabulary - 1]
        if not level:
            break
    random = dense(seed, vocabulary)

    def of(sentence, prefix):
        logits = random(sentence, prefix)
        possible = arcs.get(prefix[1:], [])
        return torch.tensor([logits[t] if t in possible else -math.inf for t in range(vocabulary)]).double()

    return of


def penalised(logp, length, alpha):
    return logp / ((5 + length) / 6) ** alpha


def exhaustive(of, vocabulary, *, alpha, max_length, n_best, sentence=0, bos=0):
    """[(score, tokens)] of every possible text, the best first."""
    eos, found, going = vocabulary - 1, [], [((), 0.0)]
    for length in range(1, max_length + 1):
        wider = []
        for tokens, logp in going:
            logits = of(sentence, (bos, *tokens))
            if logits.max() == -math.inf:
                continue
            for token, own in enumerate(logits.log_softmax(0).tolist()):
                if own == -math.inf:
                    continue
                text, total = (*tokens, token), logp + own
                if token == eos or length == max_length:
                    found.append((penalised(total, length, alpha), text))
                else:
                    wider.append((text, total))
        going = wider
    return sorted(found, reverse=True)[:n_best]


def search(of, vocabulary, *, beam, alpha, max_length, n_best, min_length=0, sentence=0, bos=0):
    """Beam search of one sentence, in lists, without an early stop."""
    eos, ended, live = vocabulary - 1, [], [((), 0.0)]
    for length in range(1, max_length + 1):
        wider = []
        for tokens, logp in live:
            for token, own in enumerate(of(sentence, (bos, *tokens)).log_softmax(0).tolist()):
                if token != eos or length >= min_length:
                    wider.append((logp + own, (*tokens, token)))
        wider.sort(reverse=True)
        for logp, text in wider[:beam]:
            if text[-1] == eos or length == max_length:
                ended.append((penalised(logp, length, alpha), text))
        live = [(text, logp) for logp, text in wider if text[-1] != eos][:beam]
    return sorted(ended, reverse=True)[:n_best]


def texts(decoded, sentence=0):
    """[(score, tokens)] of a sentence's hypotheses that exist."""
    rows = zip(*(part[sentence].tolist() for part in decoded), strict=True)
    return [(score, tuple(tokens[:length])) for tokens, score, length in rows if score > -math.inf]


def assert_same(found, expected):
    assert [text for _, text in found] == [text for _, text in expected]
    for (one, _), (other, _) in zip(found, expected, strict=True):
        assert math.isclose(one, other, rel_tol=1e-10, abs_tol=1e-10)
