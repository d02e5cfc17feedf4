"""Only what is used is computed (speedboost_and_structured 4.8, 9.6, P23)."""

import numpy as np
import pytest

from anytime.engine import Run
from anytime.losses import LINKS
from anytime.structured import descriptors, scenes
from tests.structured.streets import CHEAP_CODES, parser, streets


@pytest.fixture(scope="module")
def model():
    return parser(costs=CHEAP_CODES, thresholds=(0.0, 0.3, 0.6), n_centres=12).fit(*streets(8))


class Counted:
    """Descriptors and codes as they are computed: names, and how often each code of each atom."""

    def __init__(self, monkeypatch, scene):
        self.planes, self.codes = [], np.zeros(scene.computed.shape, dtype=int)
        compute = dict(descriptors.DESCRIPTORS)
        for name in compute:

            def described(lab, allowance, name=name):
                self.planes.append(name)
                return compute[name](lab, allowance)

            monkeypatch.setitem(scenes.DESCRIPTORS, name, described)
        work = scene._compute_code

        def coded(name, codes, atoms):
            self.codes[np.ix_(codes, np.flatnonzero(atoms))] += 1
            work(name, codes, atoms)

        monkeypatch.setattr(scene, "_compute_code", coded)


def share_computed(model, picture, patch):
    """Go through all stages and check each; the share of all codes that was computed."""
    batch = model._structures([picture])
    scene, features = batch.scenes[0], model.features_
    counted, run = Counted(patch, scene), Run(model.plan_, batch)
    needed = np.zeros(scene.computed.shape, dtype=bool)
    described = set()
    for stage, update in enumerate(model.plan_.blocks[0].updates):
        said = LINKS["softmax"].transform(run.scores().values)
        which = update.selector.select(batch, said)
        regions = batch.regions(update.selector.level)
        chosen = (
            np.ones(regions.n_regions, bool)
            if which is None
            else np.isin(np.arange(regions.n_regions), which)
        )
        columns = update.predictor.columns
        codes = columns[columns >= features.first_code] - features.first_code
        needed[np.ix_(codes, np.flatnonzero(chosen[regions.label]))] = True
        if chosen.any():
            described |= {features.names[features.first_code + code].split()[0] for code in codes}
            if ((columns >= 20) & (columns < features.first_code)).any():
                described.add("colour")
        run.advance(stage + 1)
        np.testing.assert_array_equal(counted.codes, needed)  # each once, whichever stages ask for it
        assert sorted(counted.planes) == sorted(described)
        np.testing.assert_array_equal(scene.computed, needed)
    return needed.mean()


def test_after_each_stage_there_is_what_the_stages_so_far_need_and_nothing_else(model):
    shares = []
    for picture in streets(6, first=60)[0]:
        with pytest.MonkeyPatch.context() as patch:
            shares.append(share_computed(model, picture, patch))
    assert 0.0 < np.mean(shares) < 1.0
    bought = {name for name in model.order_ if name.split()[-1].isdigit()}
    assert len(bought) < model.features_.n_codes  # some code is never needed
