"""The paper's networks as whole models: real, quaternion and PHM versions differ by one argument.

Seq2Seq              an encoder and a decoder: translation, style transfer
SequenceClassifier   a Transformer's encoder and a head: subject-verb agreement
PairClassifier       one LSTM for both of two sentences, and a perceptron: natural language inference
"""

from onenth.models.pair import PairClassifier, PairConfig
from onenth.models.seq2seq import Seq2Seq, Seq2SeqConfig
from onenth.models.sequence import SequenceClassifier, SequenceConfig

__all__ = [
    "PairClassifier",
    "PairConfig",
    "Seq2Seq",
    "Seq2SeqConfig",
    "SequenceClassifier",
    "SequenceConfig",
]
