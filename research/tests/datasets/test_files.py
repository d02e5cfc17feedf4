"""Public files that are no table of examples."""

import pytest

from anytime_research.datasets import DataFormatError, load_nasbench201, load_ptb, load_yahoo_costs


def test_ptb_ends_lines_with_a_word_of_their_own(put):
    for part, text in (("train", " b a \n a \n"), ("valid", " c \n"), ("test", " a \n")):
        put(f"ptb/ptb.{part}.txt", text)
    text = load_ptb()
    assert text.vocabulary.tolist() == ["<eos>", "a", "b", "c"]
    assert text.vocabulary[text.train].tolist() == ["b", "a", "<eos>", "a", "<eos>"]
    assert text.vocabulary[text.test].tolist() == ["a", "<eos>"]


def test_nasbench_keeps_leading_zeros_and_averages_seeds(put):
    put("nasbench201/nb201_cifar10.csv", "arch,val_acc_0,val_acc_1,latency_s\n000123,80,82,0.01\n")
    table = load_nasbench201()
    assert table.loc["000123", "val_acc"] == 81
    with pytest.raises(ValueError, match="'cifar10' or 'cifar100', not 'mnist'"):
        load_nasbench201("mnist")


def test_yahoo_prices(put):
    put("yahoo-costs/costs.txt", "100.000000\n" + "1.000000\n" * 518, plain=True)
    costs = load_yahoo_costs()
    assert costs.total == 618
    assert costs.bind(519).n_groups == 519
    put("yahoo-costs/costs.txt", "1\n", plain=True)
    with pytest.raises(DataFormatError, match="it has 1 prices instead of 519"):
        load_yahoo_costs()
