"""Small fitted models of every supported kind, each under a sentence that says what is special about it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import lightgbm as lgb
import numpy as np
import pandas as pd
import xgboost as xgb
from sklearn import dummy, ensemble, tree

N = 240


@dataclass
class Case:
    """A model, rows it can be asked about, and which strange values its library takes."""

    model: Any
    X: Any  # (n, d) array or table
    nan: bool = True
    infinite: bool = True


CASES: dict[str, Any] = {}


def case(sentence):
    def register(build):
        CASES[sentence] = build
        return build

    return register


def rng():
    return np.random.default_rng(0)


def numbers(holes=True, d=4):
    """Columns with zeros, repeated values, missing values and a difference that only float64 sees."""
    r = rng()
    X = r.normal(size=(N, d))
    X[:, 1] = np.round(X[:, 1], 1)
    X[r.random(N) < 0.3, 2] = 0.0
    X[:, 3] = 1.0 + 1e-9 * r.integers(-3, 4, N) + r.integers(0, 3, N)
    if holes:
        X[r.random(N) < 0.2, 0] = np.nan
    return X


def target(X):
    """A target that depends on every column, on holes too."""
    A = np.nan_to_num(np.asarray(X, dtype=np.float64), nan=2.0)
    return (
        A[:, 0] + 2 * np.abs(A[:, 1]) + (A[:, 2] == 0) * 1.5 + np.round(A[:, -1]) + rng().normal(size=N) / 2
    )


def two(X):
    return (target(X) > np.median(target(X))).astype(int)


def three(X):
    return np.digitize(target(X), np.quantile(target(X), [0.3, 0.7]))


# ------------------------------------------------------------------------------------------------ scikit-learn

for _name, _make in {
    "a scikit-learn decision tree": tree.DecisionTreeClassifier,
    "a scikit-learn extra tree": tree.ExtraTreeClassifier,
    "a random forest": lambda **k: ensemble.RandomForestClassifier(n_estimators=7, **k),
    "extra trees": lambda **k: ensemble.ExtraTreesClassifier(n_estimators=7, **k),
}.items():

    @case(f"{_name} with text labels and holes")
    def _(make=_make):
        X = numbers()
        y = np.array(["low", "mid", "top"])[three(X)]
        return Case(make(max_depth=4, random_state=0).fit(X, y), X, infinite=False)


for _name, _make in {
    "a decision tree regressor": tree.DecisionTreeRegressor,
    "an extra tree regressor": tree.ExtraTreeRegressor,
    "a random forest regressor": lambda **k: ensemble.RandomForestRegressor(n_estimators=7, **k),
    "an extra trees regressor": lambda **k: ensemble.ExtraTreesRegressor(n_estimators=7, **k),
}.items():

    @case(f"{_name} of two targets")
    def _(make=_make):
        X = numbers()
        return Case(
            make(max_depth=4, random_state=0).fit(X, np.c_[target(X), -(target(X) ** 2)]), X, infinite=False
        )


@case("a random forest grown leaf by leaf on weighted classes, two of them")
def _():
    X = numbers()
    model = ensemble.RandomForestClassifier(9, max_leaf_nodes=6, class_weight="balanced", random_state=1)
    return Case(model.fit(X, two(X)), X, infinite=False)


@case("a random forest of absolute error")
def _():
    X = numbers(holes=False)
    model = ensemble.RandomForestRegressor(4, max_depth=3, criterion="absolute_error", random_state=1)
    return Case(model.fit(X, target(X)), X, nan=False, infinite=False)


@case("a tree that never splits")
def _():
    X = numbers()
    return Case(
        tree.DecisionTreeClassifier(max_depth=1, min_samples_leaf=N).fit(X, three(X)), X, infinite=False
    )


def _classic(make, y_of, **options):
    def build():
        X = numbers(holes=False)
        model = make(n_estimators=8, max_depth=3, random_state=0, **options)
        return Case(model.fit(X, y_of(X)), X, nan=False, infinite=False)

    return build


_boost, _boost_r = ensemble.GradientBoostingClassifier, ensemble.GradientBoostingRegressor
case("classic boosting of two classes")(_classic(_boost, two))
case("classic boosting of three classes")(_classic(_boost, three))
case("classic boosting with exponential loss")(_classic(_boost, two, loss="exponential"))
case("classic boosting from zero")(_classic(_boost, three, init="zero"))
case("classic boosting from a uniform guess")(
    _classic(_boost, two, init=dummy.DummyClassifier(strategy="uniform"))
)
case("classic boosting of numbers")(_classic(_boost_r, target))
case("classic boosting of a quantile")(
    _classic(_boost_r, target, loss="quantile", alpha=0.8, learning_rate=0.3)
)
case("classic boosting of absolute error, rows sampled")(
    _classic(_boost_r, target, loss="absolute_error", subsample=0.7)
)
case("classic boosting that stopped early")(_classic(_boost_r, target, n_iter_no_change=2, learning_rate=1.0))
case("classic boosting from a constant")(
    _classic(_boost_r, target, init=dummy.DummyRegressor(strategy="constant", constant=-3.0))
)


def _histogram(make, y_of, **options):
    def build():
        X = numbers()
        X[:2, 1] = [1e300, -1e300]
        model = make(max_iter=8, max_leaf_nodes=7, min_samples_leaf=3, random_state=0, **options)
        return Case(model.fit(X, y_of(np.nan_to_num(X.clip(-3, 3)))), X)

    return build


_hist, _hist_r = ensemble.HistGradientBoostingClassifier, ensemble.HistGradientBoostingRegressor
case("histogram boosting of two classes")(_histogram(_hist, two))
case("histogram boosting of three classes")(_histogram(_hist, three))
for _loss in ("squared_error", "absolute_error"):
    case(f"histogram boosting, {_loss}")(_histogram(_hist_r, target, loss=_loss))
for _loss in ("poisson", "gamma"):
    case(f"histogram boosting with a log link, {_loss}")(
        _histogram(_hist_r, lambda X: np.exp(target(X) / 3), loss=_loss)
    )
case("histogram boosting of a quantile, stopped early")(
    _histogram(_hist_r, target, loss="quantile", quantile=0.7, early_stopping=True)
)


def mixed_table():
    """Numbers, text categories (some missing), integer categories and a whole-number column, in mixed order."""
    r = rng()
    colours = np.array(["red", "green", "blue", "grey"])[r.integers(0, 4, N)]
    table = pd.DataFrame(
        {
            "size": r.normal(size=N),
            "colour": pd.Categorical(np.where(r.random(N) < 0.1, None, colours)),
            "count": r.integers(0, 9, N),
            "shop": pd.Categorical(r.choice([3, 7, 11, 40, 41], N), categories=[41, 3, 7, 11, 40]),
            "weight": np.where(r.random(N) < 0.1, np.nan, r.normal(size=N)),
        }
    )
    y = (
        table["size"]
        + (table.colour == "red") * 2
        - (table.shop.astype(int) % 2) * 1.5
        + (table["count"] > 4)
    )
    return table, (y + r.normal(size=N) / 3).to_numpy()


@case("histogram boosting on a table with categories between numbers")
def _():
    table, y = mixed_table()
    return Case(_hist(max_iter=8, min_samples_leaf=3, random_state=0).fit(table, y > np.median(y)), table)


@case("histogram boosting, part of the categories never seen by the trees")
def _():
    r = rng()
    X = np.c_[r.normal(size=N), np.minimum(r.integers(0, 5, N), 4) + (np.arange(N) % 17 == 0) * np.arange(N)]
    model = _hist_r(
        max_iter=6, early_stopping=True, validation_fraction=0.5, categorical_features=[1], random_state=3
    )
    return Case(model.set_params(min_samples_leaf=3).fit(X, X[:, 0] + X[:, 1] % 3), X, infinite=False)


@case("histogram boosting on an array with categories that are fractions and negative")
def _():
    r = rng()
    X = np.c_[
        r.normal(size=N),
        r.choice([-2.0, 0.5, 1.0, 1.5, 7.0], N),
        r.normal(size=N),
        r.choice([0.0, 3.0, np.nan], N),
    ]
    y = X[:, 0] + 2 * (X[:, 1] == 1.5) - 2 * (X[:, 1] == -2) + np.isnan(X[:, 3])
    model = _hist_r(max_iter=6, min_samples_leaf=3, categorical_features=[1, 3], random_state=0)
    return Case(model.fit(X, y), X, infinite=False)


# ------------------------------------------------------------------------------------------------ LightGBM

_LGB = {
    "n_estimators": 8,
    "num_leaves": 7,
    "min_child_samples": 3,
    "verbose": -1,
    "n_jobs": 1,
    "random_state": 0,
}


def _light(make, y_of, fit=None, **options):
    def build():
        X = numbers()
        return Case(make(**_LGB, **options).fit(X, y_of(X), **(fit or {})), X)

    return build


case("LightGBM, two classes with text labels")(
    _light(lgb.LGBMClassifier, lambda X: np.array(["no", "yes"])[two(X)])
)
case("LightGBM, sigmoid of 2.5 and unbalanced classes")(
    _light(lgb.LGBMClassifier, lambda X: (target(X) > 4).astype(int), sigmoid=2.5, is_unbalance=True)
)
case("LightGBM, three classes")(_light(lgb.LGBMClassifier, lambda X: three(X) * 10 - 5))
case("LightGBM, one against all")(_light(lgb.LGBMClassifier, three, objective="multiclassova", sigmoid=1.7))
for _objective in ("regression", "regression_l1", "huber", "fair", "quantile", "mape"):
    case(f"LightGBM, {_objective}")(_light(lgb.LGBMRegressor, target, objective=_objective))
for _objective in ("poisson", "gamma", "tweedie"):
    case(f"LightGBM with a log link, {_objective}")(
        _light(lgb.LGBMRegressor, lambda X: np.exp(target(X) / 3), objective=_objective)
    )
case("LightGBM, square root of the target")(_light(lgb.LGBMRegressor, lambda X: target(X) - 2, reg_sqrt=True))
for _objective in ("cross_entropy", "cross_entropy_lambda"):
    case(f"LightGBM, {_objective}")(
        _light(lgb.LGBMRegressor, lambda X: 1 / (1 + np.exp(-target(X))), objective=_objective)
    )
case("LightGBM, a regressor of chances")(_light(lgb.LGBMRegressor, two, objective="binary"))
case("LightGBM, ranking")(_light(lgb.LGBMRanker, three, {"group": [30] * 8}))
case("LightGBM, another ranking")(_light(lgb.LGBMRanker, three, {"group": [30] * 8}, objective="rank_xendcg"))
_RF = {"boosting_type": "rf", "subsample": 0.6, "subsample_freq": 1}
case("LightGBM, a random forest of two classes")(_light(lgb.LGBMClassifier, two, **_RF))
case("LightGBM, a random forest of three classes")(_light(lgb.LGBMClassifier, three, **_RF))
case("LightGBM, a random forest of numbers")(_light(lgb.LGBMRegressor, lambda X: target(X) + 50, **_RF))
case("LightGBM, dart")(
    _light(lgb.LGBMRegressor, lambda X: target(X) + 50, boosting_type="dart", drop_rate=0.5, skip_drop=0.0)
)
case("LightGBM, zero counts as missing")(_light(lgb.LGBMRegressor, target, zero_as_missing=True))
case("LightGBM, nothing counts as missing")(_light(lgb.LGBMRegressor, target, use_missing=False))
case("LightGBM, no split was worth it")(_light(lgb.LGBMClassifier, two, min_split_gain=1e9))


@case("LightGBM, a column without holes in training")
def _():
    X = numbers(holes=False)
    return Case(lgb.LGBMRegressor(**_LGB).fit(X, target(X)), X)


@case("LightGBM, a bare booster that uses its best iteration only")
def _():
    X, half = numbers(), N // 2
    options = {
        "objective": "binary",
        "learning_rate": 0.9,
        "num_leaves": 7,
        "min_data_in_leaf": 3,
        "verbose": -1,
    }
    train = lgb.Dataset(X[:half], two(X)[:half])
    valid = lgb.Dataset(X[half:], two(X)[half:], reference=train)
    stop = lgb.early_stopping(3, verbose=False)
    booster = lgb.train(options, train, 40, valid_sets=[valid], callbacks=[stop], keep_training_booster=True)
    assert 0 < booster.best_iteration < booster.num_trees()
    return Case(booster, X)


def light_codes(**options):
    """Categories as codes in an array; a large code makes the sets span several words."""
    r = rng()
    X = np.c_[r.normal(size=N), r.choice([0, 1, 2, 5, 31, 32, 70], N), r.normal(size=N)]
    y = X[:, 0] + 2 * np.isin(X[:, 1], [0, 31, 70]) - (X[:, 1] == 5)
    small = {"min_data_per_group": 1, "cat_smooth": 1.0, "cat_l2": 0.0}
    return Case(lgb.LGBMRegressor(**_LGB, **small, **options).fit(X, y, categorical_feature=[1]), X)


case("LightGBM, categories split into sets")(lambda: light_codes(max_cat_to_onehot=1))
case("LightGBM, categories split one by one")(lambda: light_codes(max_cat_to_onehot=99))


@case("LightGBM on a table with categories")
def _():
    table, y = mixed_table()
    return Case(lgb.LGBMClassifier(**_LGB, min_data_per_group=1).fit(table, y > np.median(y)), table)


# ------------------------------------------------------------------------------------------------ XGBoost

_XGB = {"n_estimators": 8, "max_depth": 3, "n_jobs": 1, "random_state": 0}


def _extreme(make, y_of, fit=None, **options):
    def build():
        X = numbers()
        return Case(make(**{**_XGB, **options}).fit(X, y_of(X), **(fit or {})), X)

    return build


case("XGBoost, two classes")(_extreme(xgb.XGBClassifier, two))
case("XGBoost, two classes from a given start")(_extreme(xgb.XGBClassifier, two, base_score=0.2))
case("XGBoost, three classes")(_extreme(xgb.XGBClassifier, three))
case("XGBoost, three classes by softmax, a given start")(
    _extreme(xgb.XGBClassifier, three, objective="multi:softmax", base_score=0.3)
)
for _objective in ("squarederror", "absoluteerror"):
    case(f"XGBoost, reg:{_objective}")(_extreme(xgb.XGBRegressor, target, objective=f"reg:{_objective}"))
case("XGBoost, reg:pseudohubererror")(
    _extreme(xgb.XGBRegressor, target, objective="reg:pseudohubererror", base_score=4.0)
)
case("XGBoost, several quantiles at once")(
    _extreme(xgb.XGBRegressor, target, objective="reg:quantileerror", quantile_alpha=[0.1, 0.5, 0.9])
)
for _objective in ("count:poisson", "reg:gamma", "reg:tweedie"):
    case(f"XGBoost with a log link, {_objective}")(
        _extreme(xgb.XGBRegressor, lambda X: np.exp(target(X) / 3), objective=_objective)
    )
case("XGBoost, reg:logistic")(
    _extreme(xgb.XGBRegressor, lambda X: 1 / (1 + np.exp(-target(X))), objective="reg:logistic")
)
case("XGBoost, reg:squaredlogerror")(
    _extreme(xgb.XGBRegressor, lambda X: np.exp(target(X) / 3), objective="reg:squaredlogerror")
)
for _objective in ("rank:ndcg", "rank:pairwise"):
    case(f"XGBoost, {_objective}")(
        _extreme(xgb.XGBRanker, three, {"qid": np.repeat(np.arange(8), 30)}, objective=_objective)
    )
case("XGBoost, a random forest of two classes")(_extreme(xgb.XGBRFClassifier, two))
case("XGBoost, a random forest of three classes")(_extreme(xgb.XGBRFClassifier, three))
case("XGBoost, a random forest of numbers")(_extreme(xgb.XGBRFRegressor, lambda X: target(X) + 50))
case("XGBoost, a boosted forest")(_extreme(xgb.XGBClassifier, three, num_parallel_tree=3, subsample=0.7))
case("XGBoost, dart")(_extreme(xgb.XGBClassifier, three, booster="dart", rate_drop=0.5))
case("XGBoost, exact search and pruning")(
    _extreme(xgb.XGBRegressor, target, tree_method="exact", gamma=8.0, max_depth=5)
)
case("XGBoost, leaf by leaf")(
    _extreme(xgb.XGBRegressor, target, grow_policy="lossguide", max_leaves=9, max_depth=0)
)
case("XGBoost, two targets with a tree for each")(
    _extreme(xgb.XGBRegressor, lambda X: np.c_[target(X), -target(X)])
)
case("XGBoost, two targets in every leaf")(
    _extreme(
        xgb.XGBRegressor,
        lambda X: np.c_[target(X), -(target(X) ** 2) / 5],
        multi_strategy="multi_output_tree",
    )
)
case("XGBoost, three classes in every leaf")(
    _extreme(xgb.XGBClassifier, three, multi_strategy="multi_output_tree")
)
case("XGBoost, a forest with two targets in every leaf")(
    _extreme(xgb.XGBRFRegressor, lambda X: np.c_[target(X), -target(X)], multi_strategy="multi_output_tree")
)


@case("XGBoost, -999 means missing")
def _():
    X = numbers()
    y, X = target(X), np.nan_to_num(X, nan=-999.0)
    return Case(xgb.XGBRegressor(**_XGB, missing=-999.0).fit(X, y), X, nan=False)


@case("XGBoost, stopped early")
def _():
    X, half = numbers(), N // 2
    model = xgb.XGBRegressor(**{**_XGB, "n_estimators": 60, "learning_rate": 0.9, "early_stopping_rounds": 3})
    model.fit(X[:half], target(X)[:half], eval_set=[(X[half:], target(X)[half:])], verbose=False)
    assert model.best_iteration + 1 < model.get_booster().num_boosted_rounds()
    return Case(model, X)


@case("XGBoost, a bare booster that uses all rounds although it stopped early")
def _():
    X, half = numbers(), N // 2
    train, valid = xgb.DMatrix(X[:half], two(X)[:half]), xgb.DMatrix(X[half:], two(X)[half:])
    options = {"objective": "binary:logistic", "learning_rate": 1.0, "max_depth": 4, "nthread": 1}
    booster = xgb.train(options, train, 30, evals=[(valid, "v")], early_stopping_rounds=3, verbose_eval=False)
    assert booster.best_iteration + 1 < booster.num_boosted_rounds()
    return Case(booster, X)


def extreme_codes(one_by_one):
    r = rng()
    X = np.c_[r.normal(size=N), r.choice([0, 1, 2, 5, 31, 32, 40], N), r.normal(size=N)]
    y = X[:, 0] + 2 * np.isin(X[:, 1], [0, 31, 40]) - (X[:, 1] == 5)
    options = {"feature_types": ["q", "c", "q"], "enable_categorical": True, "max_cat_to_onehot": one_by_one}
    return Case(xgb.XGBRegressor(**_XGB, **options).fit(X, y), X)


case("XGBoost, categories split into sets")(lambda: extreme_codes(1))
case("XGBoost, categories split one by one")(lambda: extreme_codes(99))


@case("XGBoost on a table with categories")
def _():
    table, y = mixed_table()
    options = {"enable_categorical": True, "max_cat_to_onehot": 2}
    return Case(xgb.XGBClassifier(**_XGB, **options).fit(table, y > np.median(y)), table)
