"""The rows, in the order of the table of promised figures."""

from benches.model import Row
from benches.rows.apps import AppChainRow, AppsRow, ObjectsRow, OnThreadsRow, UnderParslRow
from benches.rows.bag import BagRow
from benches.rows.broadcast import BroadcastRow
from benches.rows.context_calls import ContextCallRow, ReforkRow
from benches.rows.context_chemistry import ChemistryRow
from benches.rows.context_import import SharedImportRow
from benches.rows.context_inference import InferenceRow
from benches.rows.context_shares import SharesRow
from benches.rows.context_starts import ContextStartRow
from benches.rows.context_sweeps import SweepsRow
from benches.rows.disturbance import DisturbanceRow
from benches.rows.echo import EchoRow, ViewsRow
from benches.rows.efficiency import EfficiencyRow
from benches.rows.graph import ChainRow, FanRow
from benches.rows.latency import HotRow, SilenceRow
from benches.rows.memory import FlatRow, OutstandingRow
from benches.rows.metg import MetgRow, NearlyFullRow
from benches.rows.native import NativeRow
from benches.rows.native_parts import NativePartsRow
from benches.rows.nested import NestedRow
from benches.rows.node_loss import LossRow
from benches.rows.node_trip import TripRow
from benches.rows.on_nodes import FibonacciRow, FloodRow
from benches.rows.peak_memory import PeakMemoryRow
from benches.rows.remembered import CheckpointRow, HitRow
from benches.rows.replace import ReplaceRow
from benches.rows.scheduling import SchedulingRow
from benches.rows.small_map import SmallMapRow
from benches.rows.start import FirstRow, ImportRow
from benches.rows.suite_cost import SuiteCostRow
from benches.rows.throughput import MapRow, SubmitRow
from benches.rows.timings import TimingsRow
from benches.rows.uneven import UnevenRow

ROWS: dict[str, Row] = {
    row.key: row
    for row in (
        SubmitRow(),
        MapRow(),
        BagRow(),
        HotRow(),
        NestedRow(),
        NativeRow(),
        NativePartsRow(),
        SilenceRow(),
        OutstandingRow(),
        ChainRow(),
        FanRow(),
        EchoRow(),
        ViewsRow(),
        ReplaceRow(),
        ImportRow(),
        FirstRow(),
        MetgRow(),
        NearlyFullRow(),
        EfficiencyRow(),
        UnevenRow(),
        SmallMapRow(),
        DisturbanceRow(),
        TimingsRow(),
        FlatRow(),
        PeakMemoryRow(),
        SchedulingRow(),
        AppsRow(),
        OnThreadsRow(),
        UnderParslRow(),
        ObjectsRow(),
        AppChainRow(),
        HitRow(),
        CheckpointRow(),
        FloodRow(),
        TripRow(),
        LossRow(),
        FibonacciRow(),
        BroadcastRow(),
        ContextCallRow(),
        ContextStartRow(),
        ReforkRow(),
        InferenceRow(),
        SweepsRow(),
        SharesRow(),
        SharedImportRow(),
        ChemistryRow(),
        SuiteCostRow(),
    )
}

#: Rows that are measured together under one name.
GROUPS: dict[str, tuple[str, ...]] = {
    "contexts": tuple(key for key in ROWS if key.startswith("context-")),
}
