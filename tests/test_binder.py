"""What a Binder visitor gets: the environment that binder/postBuild makes, and the list of notebooks."""

import contextlib
import json
import os
import re
import socket
import subprocess
import sys
import tomllib
import urllib.request
from dataclasses import dataclass
from pathlib import Path

import pytest
import yaml
from helpers import wait_until
from packaging.requirements import Requirement

ROOT = Path(__file__).parents[1]

# It installs many packages, and builds the front end.
pytestmark = [pytest.mark.cluster, pytest.mark.slow, pytest.mark.timeout(1200)]


@dataclass
class BinderEnvironment:
    """A checkout, and a virtual environment that stands in for the conda environment of repo2docker."""

    checkout: Path
    prefix: Path
    variables: dict[str, str]

    def run(self, *command):
        pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.STDOUT, "text": True}
        return subprocess.run(command, cwd=self.checkout, env=self.variables, check=True, **pipes).stdout

    @contextlib.contextmanager
    def server(self, program):
        """Start a Jupyter server as `program` in the checkout; gives its address and its token."""
        command = [self.prefix / "bin" / "jupyter", program, "--no-browser", "--allow-root", "--ServerApp.port=0"]
        runtime = Path(self.variables["JUPYTER_RUNTIME_DIR"])
        output = {"stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL}
        with subprocess.Popen(command, cwd=self.checkout, env=self.variables, **output) as process:
            file = runtime / f"jpserver-{process.pid}.json"

            def listens():
                assert process.poll() is None, "the server ended"
                if not (file.exists() and file.read_text().endswith("}")):
                    return False
                with socket.socket() as connection:
                    return not connection.connect_ex(("localhost", json.loads(file.read_text())["port"]))

            try:
                wait_until(listens, 60)
                information = json.loads(file.read_text())
                yield information["url"], information["token"]
            finally:
                process.terminate()


def get(url, token):
    request = urllib.request.Request(url, headers={"Authorization": f"token {token}"})
    with urllib.request.urlopen(request, timeout=30) as response:
        return response.geturl(), response.read()


@pytest.fixture(scope="module")
def binder(tmp_path_factory):
    folder = tmp_path_factory.mktemp("binder")
    checkout, prefix = folder / "checkout", folder / "environment"
    copy_checkout(checkout)
    subprocess.run([sys.executable, "-m", "venv", prefix], check=True)
    # Neither the environment of the tests nor the user's settings may help.
    path = [part for part in os.environ["PATH"].split(os.pathsep) if not Path(part).is_relative_to(sys.prefix)]
    others = ("PYTHON", "JUPYTER", "COV_")
    variables = {name: value for name, value in os.environ.items() if not name.startswith(others)}
    variables |= {
        "PATH": os.pathsep.join([str(prefix / "bin"), *path]),
        "VIRTUAL_ENV": str(prefix),
        "PIP_NO_COMPILE": "1",  # which takes longer than all that is run there
        **{f"JUPYTER_{name}_DIR": str(folder / name.lower()) for name in ("CONFIG", "DATA", "RUNTIME")},
    }
    environment = BinderEnvironment(checkout, prefix, variables)
    environment.run("python", "-m", "pip", "install", *packages_of_environment())
    environment.run(checkout / "binder" / "postBuild")
    return environment


def copy_checkout(target):
    listing = subprocess.run(
        ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"],
        cwd=ROOT,
        check=True,
        capture_output=True,
        text=True,
    ).stdout
    for name in filter(None, listing.split("\0")):
        if (ROOT / name).is_file():
            (target / name).parent.mkdir(parents=True, exist_ok=True)
            (target / name).write_bytes((ROOT / name).read_bytes())
            (target / name).chmod((ROOT / name).stat().st_mode)


def packages_of_environment():
    """What environment.yml names and pip can install; Python, pip and Node.js are those of the machine."""
    content = yaml.safe_load((ROOT / "binder" / "environment.yml").read_text())
    packages = [package for package in content["dependencies"] if not re.match(r"(python|pip|nodejs)\b", package)]
    return [package.replace("py-xgboost-cpu", "xgboost-cpu") for package in packages]


def test_binder_installs_the_package_from_a_wheel_with_the_lab_extension_and_no_gpu_package(binder):
    script = "from importlib.metadata import *; print(distribution('jupyter_gpudask').read_text('direct_url.json'))"
    assert json.loads(binder.run("python", "-P", "-c", script))["url"].endswith(".whl")
    script = "import jupyter_gpudask; print(jupyter_gpudask.__file__)"
    assert binder.run("python", "-P", "-c", script).startswith(str(binder.prefix))
    listing = re.sub(r"\x1b\[[0-9;]*m", "", binder.run("jupyter", "labextension", "list"))
    assert re.search(r"jupyter-gpudask v\S+ enabled +OK", listing), listing

    extras = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["optional-dependencies"]
    ours = {Requirement(line).name for extra in ("cu12", "cu13") for line in extras[extra]}
    listing = binder.run("python", "-m", "pip", "list", "--disable-pip-version-check", "--format=json")
    installed = {package["name"].lower().replace("_", "-") for package in json.loads(listing.splitlines()[-1])}
    assert "dask" in installed
    assert not installed & ours
    # nvidia-ml-py asks the driver what there is, and is of use without one.
    assert {name for name in installed if re.search("cuda|cupy|cudf|nvidia", name)} == {"nvidia-ml-py"}


@pytest.mark.parametrize("program", ["lab", "notebook", "server"])
def test_binder_opens_the_list_of_notebooks(binder, program):
    with binder.server(program) as (url, token):
        landed, _ = get(url, token)
        _, content = get(url + "api/contents/binder/index.ipynb?content=0", token)

    assert landed == url + "lab/tree/binder/index.ipynb"
    assert json.loads(content)["type"] == "notebook"


def test_binder_installs_what_the_notebooks_import(binder):
    imported = {
        name.partition(".")[0]
        for path in (ROOT / "binder").glob("*.ipynb")
        for name in re.findall(r"^(?:import|from) ([\w.]+)", sources(path), flags=re.MULTILINE)
    }
    assert {"matplotlib", "scipy", "sklearn", "xgboost"} <= imported
    imported -= {"torch", "skorch"}  # which pytorch.ipynb says how to install: they are larger than all the rest
    find = f"import importlib.util; print([n for n in {sorted(imported)} if importlib.util.find_spec(n) is None])"
    assert binder.run("python", "-P", "-c", find).strip() == "[]"


def sources(notebook):
    cells = json.loads(notebook.read_text())["cells"]
    return "\n".join("".join(cell["source"]) for cell in cells if cell["cell_type"] == "code")
