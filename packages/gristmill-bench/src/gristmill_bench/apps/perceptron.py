"""A perceptron that classifies handwritten digits, and its training by clients: the tasks of federated learning.

Images are the 1,797 scans of digits that come with scikit-learn. A client gets the indices of its images, and reads the
images where it runs, as a device would: images are never arguments.
"""

from __future__ import annotations

from functools import lru_cache
from typing import TYPE_CHECKING, Any, NamedTuple

if TYPE_CHECKING:
    import numpy as np

    Array = np.ndarray[Any, np.dtype[Any]]
    #: Matrices of the hidden layer and of the layer above it, then their offsets.
    Weights = list[Array]

#: Number of different digits.
LABELS = 10
#: Learning rate so small that a step changes almost nothing.
_SMALL = 1e-6


class Training(NamedTuple):
    """Training of a client: passes over its images, images of a step, learning rate, and seed of the shuffles."""

    epochs: int
    batch_size: int
    learning_rate: float
    seed: int


class Update(NamedTuple):
    """Weights that a client has trained, and the number of its images."""

    images: int
    weights: Weights


@lru_cache(maxsize=1)
def digits() -> tuple[Array, Array]:
    """Returns the images, ``float[1797][64]`` from 0 to 1, and their digits, ``int[1797]``."""
    from sklearn.datasets import load_digits

    images, labels = load_digits(return_X_y=True)
    return images / 16, labels


def _network(hidden: int, learning_rate: float, seed: int) -> Any:
    """Returns a perceptron with random weights after one step, because only then has scikit-learn made its layers."""
    from sklearn.neural_network import MLPClassifier

    made = MLPClassifier(
        (hidden,),
        solver="sgd",
        momentum=0.0,
        alpha=0.0,
        learning_rate_init=learning_rate,
        batch_size=1,
        random_state=seed,
    )
    images, labels = digits()
    return made.partial_fit(images[:1], labels[:1], classes=range(LABELS))


def first_weights(hidden: int, seed: int) -> Weights:
    """Returns the first model of the training, with ``hidden`` units in the hidden layer."""
    return _weights_of(_network(hidden, _SMALL, seed))


def _weights_of(made: Any) -> Weights:
    return [*made.coefs_, *made.intercepts_]


def _with_weights(made: Any, weights: Weights) -> Any:
    """Sets copies of the weights, because a step changes weights in place and other tasks may share them."""
    own = [one.copy() for one in weights]
    made.coefs_, made.intercepts_ = own[:2], own[2:]
    return made


def train(weights: Weights, mine: Array, training: Training) -> Update:
    """Trains the model on the client's own images."""
    images, labels = digits()
    made = _network(weights[0].shape[1], training.learning_rate, training.seed)
    made = _with_weights(made, weights).set_params(batch_size=min(training.batch_size, len(mine)))
    for _ in range(training.epochs):
        made.partial_fit(images[mine], labels[mine])
    return Update(len(mine), _weights_of(made))


def average(*updates: Update) -> Weights:
    """Returns the next model: the mean of the clients' models, weighted by the numbers of their images."""
    total = sum(update.images for update in updates)
    layers = zip(*(update.weights for update in updates), strict=True)
    counts = [update.images / total for update in updates]
    return [sum(share * one for share, one in zip(counts, same, strict=True)) for same in layers]


def evaluate(weights: Weights, held_out: Array) -> float:
    """Returns the share of the held-out images that the model classifies correctly."""
    images, labels = digits()
    made = _with_weights(_network(weights[0].shape[1], _SMALL, 0), weights)
    return float(made.score(images[held_out], labels[held_out]))
