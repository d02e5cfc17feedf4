"""Structured prediction: many labels at once, refined where they are uncertain, with features bought on demand."""

from anytime.structured.block import EntropySelector, StructuredBlock, Update
from anytime.structured.chains import Chains
from anytime.structured.graph_labeler import GraphLabeler
from anytime.structured.graphs import Graphs, grid_edges, nearest_edges
from anytime.structured.learners import BoostedTreesLearner, LinearUpdateLearner, TreeUpdateLearner
from anytime.structured.rules import StructuredRules, StructuredStep
from anytime.structured.scene_parser import SceneParser
from anytime.structured.scene_session import SceneSession
from anytime.structured.selections import selected_pixels
from anytime.structured.sequences import SequenceLabeler
from anytime.structured.structures import WHOLE, ElementTable, Regions, Structures
from anytime.structured.trainer import StructuredSpeedBoost

__all__ = [
    "WHOLE",
    "BoostedTreesLearner",
    "Chains",
    "ElementTable",
    "EntropySelector",
    "GraphLabeler",
    "Graphs",
    "LinearUpdateLearner",
    "Regions",
    "SceneParser",
    "SceneSession",
    "SequenceLabeler",
    "StructuredBlock",
    "StructuredRules",
    "StructuredSpeedBoost",
    "StructuredStep",
    "Structures",
    "TreeUpdateLearner",
    "Update",
    "grid_edges",
    "nearest_edges",
    "selected_pixels",
]
