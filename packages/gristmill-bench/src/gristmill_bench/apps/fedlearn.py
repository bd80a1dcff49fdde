"""Federated learning: clients train a model on images of their own, and only its weights travel (TaPS, section III-E).

The algorithm is FederatedAveraging (McMahan et al., *Communication-Efficient Learning of Deep Networks from
Decentralized Data*, AISTATS 2017, algorithm 1): in each round a share of the clients trains the model for some epochs,
and the next model is the mean of theirs, weighted by their numbers of images. Labels are distributed over clients as in
Yurochkin et al. (ICML 2019, section 4): the parts of each label are drawn from a Dirichlet distribution.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, NamedTuple

from pydantic import Field

from gristmill_bench.apps.base import App
from gristmill_bench.apps.perceptron import (
    LABELS,
    Training,
    Update,
    average,
    digits,
    evaluate,
    first_weights,
    train,
)
from gristmill_bench.engine import Engine, TaskFuture
from gristmill_bench.errors import WrongResult

if TYPE_CHECKING:
    import numpy as np

    from gristmill_bench.apps.perceptron import Array, Weights

#: Ratio of all images to the held-out images.
_HELD_OUT = 5


class Learned(NamedTuple):
    """Result of a run: the updates of the last round, their mean, and the accuracy of each round's model."""

    updates: list[Update]
    weights: Weights
    accuracies: list[float]


class Plan(NamedTuple):
    """Images of each client, clients that take part in each round, and held-out images."""

    shares: list[Array]
    rounds: list[list[int]]
    held_out: Array


class FedLearn(App):
    """A model of handwritten digits, learned by clients that keep their images (TaPS)."""

    needs: ClassVar[tuple[str, ...]] = ("numpy", "scikit-learn")

    clients: Annotated[int, Field(ge=1, le=1000)] = 8
    rounds: Annotated[int, Field(ge=1)] = 8
    #: Share of the clients that is drawn in each round; at least one client is drawn.
    participation: Annotated[float, Field(gt=0, le=1)] = 1.0
    #: Passes of a client over its images in a round, images of a step, and learning rate.
    epochs: Annotated[int, Field(ge=1)] = 3
    batch_size: Annotated[int, Field(ge=1)] = 10
    learning_rate: Annotated[float, Field(gt=0, allow_inf_nan=False)] = 0.2
    #: Similarity of clients: far below 1 each client has images of a few digits; without a value each has some of all
    #: digits.
    alpha: Annotated[float, Field(ge=1e-3, le=1e6)] | None = 0.2
    #: Units of the hidden layer.
    hidden: Annotated[int, Field(ge=1)] = 64
    #: Least share of the held-out images that the last model has to classify correctly. The reachable share depends on
    #: all other fields; with their defaults the model of any single client stays below this value.
    accuracy: Annotated[float, Field(ge=0, le=1)] = 0.88
    seed: Annotated[int, Field(ge=0, lt=2**32)] = 1

    def plan(self) -> Plan:
        """Assigns images to clients, and clients to rounds; a client without images takes part in no round."""
        import numpy as np

        source = np.random.default_rng(self.seed)
        shuffled = source.permutation(len(digits()[1]))
        held_out, kept = np.split(shuffled, [len(shuffled) // _HELD_OUT])
        shares = [share for share in self._shares(kept, source) if len(share)]
        drawn = min(max(1, round(self.participation * self.clients)), len(shares))
        rounds = [
            source.choice(len(shares), drawn, replace=False).tolist() for _ in range(self.rounds)
        ]
        return Plan(shares, rounds, held_out)

    def _shares(self, kept: Array, source: np.random.Generator) -> list[Array]:
        import numpy as np

        if self.alpha is None:
            return np.array_split(kept, self.clients)
        labels = digits()[1][kept]
        parts: list[list[Array]] = [[] for _ in range(self.clients)]
        for label in range(LABELS):
            same = kept[labels == label]
            bounds = np.cumsum(source.dirichlet([self.alpha] * self.clients))[:-1] * len(same)
            for client, part in enumerate(np.split(same, np.round(bounds).astype(int))):
                parts[client].append(part)
        return [np.concatenate(own) for own in parts]

    def prepare(self, folder: Path) -> tuple[Plan, Weights]:
        """Returns the plan of the run and the weights of the first model."""
        return self.plan(), first_weights(self.hidden, self.seed)

    def run(self, engine: Engine, folder: Path) -> Learned:
        """Returns the learned model. Rounds follow each other through futures: the program waits only at the end."""
        import numpy as np

        plan: Plan
        weights: Any
        plan, weights = self.inputs(folder)
        accuracies: list[TaskFuture[float]] = []
        updates: list[TaskFuture[Update]] = []
        for number, drawn in enumerate(plan.rounds):
            updates = []
            for client in drawn:
                seed = int(np.random.SeedSequence((self.seed, number, client)).generate_state(1)[0])
                training = Training(self.epochs, self.batch_size, self.learning_rate, seed)
                updates.append(engine.submit(train, weights, plan.shares[client], training))
            weights = engine.submit(average, *updates)
            accuracies.append(engine.submit(evaluate, weights, plan.held_out))
        return Learned(
            [update.result() for update in updates],
            weights.result(),
            [accuracy.result() for accuracy in accuracies],
        )

    def check(self, result: Learned) -> str:
        """Checks the clients of the last round, that its model is their mean, and its accuracy."""
        import numpy as np

        plan = self.plan()
        counts = [update.images for update in result.updates]
        if counts != [len(plan.shares[client]) for client in plan.rounds[-1]]:
            raise WrongResult(f"the clients of the last round had {counts} images")
        updates = [update.weights for update in result.updates]
        means = [
            np.average(np.stack(same), axis=0, weights=counts)
            for same in zip(*updates, strict=True)
        ]
        if len(means) != len(result.weights) or not all(map(np.allclose, result.weights, means)):
            raise WrongResult("the last model is not the mean of those of the clients")
        if len(result.accuracies) != self.rounds:
            raise WrongResult(f"{len(result.accuracies)} rounds instead of {self.rounds}")
        found, told = result.accuracies[-1], self._accuracy(result.weights, plan.held_out)
        if not np.isclose(found, told):
            raise WrongResult(f"the last model tells {told:.1%} right, not {found:.1%}")
        if told < self.accuracy:
            raise WrongResult(
                f"the last model tells {told:.1%} right, less than app.accuracy, {self.accuracy:.1%}"
            )
        return f"{self.rounds} rounds of {len(counts)} clients: {told:.1%} of held-out images told right"

    @staticmethod
    def _accuracy(weights: Weights, held_out: Array) -> float:
        """Returns the accuracy of the model, by the formula of a perceptron with one hidden layer."""
        images, labels = digits()
        hidden, last, hidden_offset, last_offset = weights
        scores = (images[held_out] @ hidden + hidden_offset).clip(min=0) @ last + last_offset
        return float((scores.argmax(axis=1) == labels[held_out]).mean())

    def figures(self, result: Learned) -> dict[str, float]:
        """Returns the accuracy of the last model on the held-out images, in percent."""
        return {"accuracy_percent": 100 * result.accuracies[-1]}
