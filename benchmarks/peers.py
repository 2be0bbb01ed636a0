"""Beam search side by side with `transformers`: Pegasus is a dense `Seq2Seq`, with other positions.

It is given the weights and the positions of ours, and is timed only where it finds the same sentences.

    python benchmarks/peers.py --out results/peers-cpu.json
"""

import argparse
from pathlib import Path

import record
import torch
import transformers
from rich.console import Console
from rich.table import Table
from torch import Tensor, nn
from transformers import PegasusConfig, PegasusForConditionalGeneration

from onenth import freeze
from onenth.decoding import beam_search
from onenth.lab.measure import timing
from onenth.lab.measure.timing import Action, contest
from onenth.models import Seq2Seq, Seq2SeqConfig
from onenth.models.seq2seq import Decoding


def searches(model: Seq2Seq, source: Tensor, beam: int, length: int) -> dict[str, Action]:
    """Ours and theirs: the best of a beam at exactly so many tokens, which are checked to be the same."""
    twin = pegasus(model)
    begin = torch.full((len(source), 1), model.config.bos)
    options = {
        "num_beams": beam, "do_sample": False, "length_penalty": 0.0, "min_new_tokens": length,
        "max_new_tokens": length, "eos_token_id": None, "attention_mask": torch.ones_like(source),
    }  # fmt: skip

    @torch.no_grad()
    def ours() -> Tensor:
        steps = Decoding(model, source, length, rows=beam)
        options = {"alpha": 0.0, "bos": model.config.bos, "eos": None, "pad": model.config.pad}
        return beam_search(steps, len(source), beam=beam, max_length=length, **options).tokens[:, 0]

    @torch.no_grad()
    def theirs() -> Tensor:
        return twin.generate(source, decoder_input_ids=begin, **options)[:, 1:]

    if not torch.equal(ours(), theirs()):
        raise SystemExit("transformers finds other sentences: not timed")
    return {"transformers, dense": theirs, "ours, dense": ours}


@torch.no_grad()
def pegasus(model: Seq2Seq) -> PegasusForConditionalGeneration:
    """A Pegasus with the weights of a dense model."""
    own = model.config
    config = PegasusConfig(
        vocab_size=own.vocabulary, d_model=own.hidden, max_position_embeddings=own.positions,
        encoder_layers=own.layers, encoder_ffn_dim=own.filter, encoder_attention_heads=own.heads,
        decoder_layers=own.layers, decoder_ffn_dim=own.filter, decoder_attention_heads=own.heads,
        activation_function="relu", scale_embedding=True, pad_token_id=own.pad, bos_token_id=own.bos,
        eos_token_id=own.eos, decoder_start_token_id=own.bos, forced_eos_token_id=None,
    )  # fmt: skip
    twin = PegasusForConditionalGeneration(config).eval()
    twin.model.shared.weight.copy_(model.tokens.embedding.weight)
    for ours, theirs in zip(
        (model.transformer.encoder, model.transformer.decoder),
        (twin.model.encoder, twin.model.decoder),
        strict=True,
    ):
        theirs.embed_positions.weight.copy_(model.tokens.position)
        _copy(theirs.layer_norm, ours.norm)
        for layer, other in zip(ours.layers, theirs.layers, strict=True):
            attention = [(layer.self_attn, other.self_attn, other.self_attn_layer_norm)]
            if hasattr(layer, "multihead_attn"):
                attention.append((layer.multihead_attn, other.encoder_attn, other.encoder_attn_layer_norm))
            norms = (
                [layer.norm1, layer.norm2] if len(attention) == 1 else [layer.norm1, layer.norm2, layer.norm3]
            )
            for (mine, its, norm), own_norm in zip(attention, norms[:-1], strict=True):
                _copy(norm, own_norm)
                _copy(its.out_proj, mine.out_proj)
                parts = [
                    getattr(mine, name) for name in ("in_proj", "q_proj", "kv_proj") if hasattr(mine, name)
                ]
                weights = torch.cat([part.weight for part in parts]).chunk(3)
                biases = torch.cat([part.bias for part in parts]).chunk(3)
                for name, weight, bias in zip(("q_proj", "k_proj", "v_proj"), weights, biases, strict=True):
                    getattr(its, name).weight.copy_(weight)
                    getattr(its, name).bias.copy_(bias)
            _copy(other.fc1, layer.linear1)
            _copy(other.fc2, layer.linear2)
            _copy(other.final_layer_norm, norms[-1])
    return twin


def _copy(to: nn.Module, of: nn.Module) -> None:
    to.weight.copy_(of.weight)
    to.bias.copy_(of.bias)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--layers", type=int, default=6)
    parser.add_argument("--length", type=int, default=32, help="tokens of a sentence (default 32)")
    parser.add_argument("--vocabulary", type=int, default=8192)
    parser.add_argument("--rounds", type=int, default=10, help="times each is timed (default 10)")
    parser.add_argument("--threads", type=int, default=2, help="threads torch may use (default 2)")
    parser.add_argument("--out", type=Path, help="file for the result (JSON)")
    options = parser.parse_args()
    torch.set_num_threads(options.threads)
    torch.manual_seed(0)
    model = Seq2Seq(Seq2SeqConfig(vocabulary=options.vocabulary, layers=options.layers)).eval()
    freeze(model)
    tables = {}
    for sentences in (1, 8):
        source = torch.randint(3, options.vocabulary, (sentences, options.length))
        title = f"beam of 4, {sentences} × {options.length} tokens"
        tables[title] = contest(searches(model, source, 4, options.length), options.rounds)
        table = Table("model", "ratio", "ms", title=title)
        for row in tables[title]:
            table.add_row(row["name"], timing.cell(row), f"{row['ms']:.1f}")
        Console(width=110).print(table)
    if options.out:
        about = {"transformers": transformers.__version__, "layers": options.layers}
        record.write(options.out, {**about, "vocabulary": options.vocabulary, **tables})


if __name__ == "__main__":
    main()
