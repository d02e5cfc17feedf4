"""Files in ``deploy/`` for Ray Serve fit Ray Serve and the application as they are."""

from __future__ import annotations

import importlib
from pathlib import Path

import pytest
import yaml

schema = pytest.importorskip("ray.serve.schema", reason='needs Ray Serve: pip install "anytime[ray,serve]"')
pytestmark = pytest.mark.ray

DEPLOY = Path(__file__).resolve().parents[2] / "deploy"
CLUSTER, KUBERNETES = (
    yaml.safe_load((DEPLOY / name).read_text()) for name in ("ray-serve.yaml", "kuberay.yaml")
)


@pytest.mark.parametrize("config", [CLUSTER, yaml.safe_load(KUBERNETES["spec"]["serveConfigV2"])])
def test_configurations_build_the_application_with_options_that_it_has(config, monkeypatch):
    monkeypatch.setenv("ANYTIME_TOKEN", "secret")
    (application,) = schema.ServeDeploySchema.model_validate(config).applications
    module, _, name = application.import_path.partition(":")
    built = getattr(importlib.import_module(module), name)(application.args)
    deployment = built._bound_deployment
    (settings,) = deployment.init_args
    assert (settings.token, settings.host, settings.slo) == ("secret", "0.0.0.0", 0.02)
    assert {model: str(path) for model, path in settings.models.items()} == application.args["models"]
    scaling = deployment._deployment_config.autoscaling_config
    assert [scaling.min_replicas, scaling.max_replicas] == application.args["workers"]
    policy_module, _, policy = scaling.policy.policy_function.partition(":")
    assert callable(getattr(importlib.import_module(policy_module), policy))
    with pytest.raises(TypeError, match="replicas"):
        getattr(importlib.import_module(module), name)({**application.args, "replicas": 2})


def test_pods_have_the_models_the_token_and_the_same_image():
    cluster = KUBERNETES["spec"]["rayClusterConfig"]
    pods = [group["template"]["spec"] for group in (cluster["headGroupSpec"], *cluster["workerGroupSpecs"])]
    images = set()
    for pod in pods:
        (container,) = pod["containers"]
        images.add(container["image"])
        given = {variable["name"] for variable in container["env"]}
        assert given == {"RAY_SERVE_ENABLE_HA_PROXY", "RAY_worker_niceness", "ANYTIME_TOKEN"}
        assert 8000 in {port["containerPort"] for port in container["ports"]}
        assert {mount["name"] for mount in container["volumeMounts"]} == {
            volume["name"] for volume in pod["volumes"]
        }
        assert "/models" in {mount["mountPath"] for mount in container["volumeMounts"]}
    assert images == {f"anytime-ray:{cluster['rayVersion']}"}
