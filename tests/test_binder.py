"""What a Binder visitor gets: the environment that binder/postBuild makes, and the list of notebooks."""

import contextlib
import json
import os
import re
import shutil
import socket
import subprocess
import sys
import time
import tomllib
import urllib.request
from dataclasses import dataclass
from importlib import metadata
from pathlib import Path

import pytest
import yaml
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

pytestmark = pytest.mark.cluster

ROOT = Path(__file__).parents[1]

with_postbuild = pytest.mark.timeout(1200)  # it installs many packages, and may build the front end


@dataclass
class BinderEnvironment:
    """A checkout, and a virtual environment that stands in for the conda environment of repo2docker."""

    checkout: Path
    prefix: Path
    variables: dict[str, str]

    def run(self, *command):
        return subprocess.run(
            command,
            cwd=self.checkout,
            env=self.variables,
            check=True,
            text=True,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
        ).stdout

    @contextlib.contextmanager
    def server(self, program):
        """Start a Jupyter server as `program` in the checkout; gives its address and its token."""
        command = ["jupyter", program, "--no-browser", "--allow-root", "--ServerApp.port=0"]
        runtime = Path(self.variables["JUPYTER_RUNTIME_DIR"])
        with subprocess.Popen(
            command,
            cwd=self.checkout,
            env=self.variables,
            executable=self.prefix / "bin" / "jupyter",
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        ) as process:
            try:
                information = json.loads(wait_for_text(runtime / f"jpserver-{process.pid}.json", process))
                wait_for_connection(information["port"], process)
                yield information["url"], information["token"]
            finally:
                process.terminate()


def wait_for_text(path, process):
    deadline = time.monotonic() + 60
    while not (path.exists() and path.read_text().endswith("}")):
        assert process.poll() is None, "the server ended"
        assert time.monotonic() < deadline, "the server did not start"
        time.sleep(0.1)
    return path.read_text()


def wait_for_connection(port, process):
    deadline = time.monotonic() + 60
    while True:
        try:
            with socket.create_connection(("localhost", port), timeout=30):
                return
        except ConnectionRefusedError:
            assert process.poll() is None, "the server ended"
            assert time.monotonic() < deadline, "the server does not listen"
            time.sleep(0.1)


def get(url, token):
    request = urllib.request.Request(url, headers={"Authorization": f"token {token}"})
    with urllib.request.urlopen(request, timeout=30) as response:
        return response.geturl(), response.read()


@pytest.fixture(scope="module", params=["wheel", pytest.param("sources", marks=pytest.mark.slow)])
def binder(request, tmp_path_factory):
    folder = tmp_path_factory.mktemp("binder")
    checkout, prefix = folder / "checkout", folder / "environment"
    copy_checkout(checkout)
    if request.param == "wheel":
        (checkout / "dist").mkdir()
        for wheel in (ROOT / "dist").glob("*.whl"):
            shutil.copy(wheel, checkout / "dist")
    subprocess.run([sys.executable, "-m", "venv", prefix], check=True)
    # Neither the environment of the tests nor the user's settings may help.
    path = [part for part in os.environ["PATH"].split(os.pathsep) if not Path(part).is_relative_to(sys.prefix)]
    others = ("PYTHON", "JUPYTER", "COV_")
    variables = {name: value for name, value in os.environ.items() if not name.startswith(others)}
    variables |= {
        "PATH": os.pathsep.join([str(prefix / "bin"), *path]),
        "VIRTUAL_ENV": str(prefix),
        "PIP_NO_COMPILE": "1",  # which takes longer than all that is run there
        "JUPYTER_CONFIG_DIR": str(folder / "config"),
        "JUPYTER_DATA_DIR": str(folder / "data"),
        "JUPYTER_RUNTIME_DIR": str(folder / "runtime"),
    }
    environment = BinderEnvironment(checkout, prefix, variables)
    if request.param == "wheel":
        project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
        link_packages([*packages_of_environment(), *project["dependencies"]], prefix)
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


def link_packages(requirements, prefix):
    """Link what these require, and nothing else, from the environment of the tests to the one at `prefix`.

    pip takes what it finds there and installs the rest, as it would all of it, which takes a minute or more.
    """
    (packages,) = prefix.glob("lib/python3*/site-packages")
    for distribution in required_distributions(requirements):
        for file in distribution.files or ():
            source, target = Path(file.locate()), Path(os.path.normpath(packages / file))
            if target.exists() or not source.is_file():
                continue
            target.parent.mkdir(parents=True, exist_ok=True)
            if target.is_relative_to(packages):
                link(source, target)
            else:  # programs, which name their Python, and files that may be changed
                content = source.read_bytes().replace(f"#!{sys.prefix}/".encode(), f"#!{prefix}/".encode(), 1)
                target.write_bytes(content)
                target.chmod(source.stat().st_mode)


def link(source, target):
    try:
        os.link(source, target)
    except OSError:  # another file system
        shutil.copy2(source, target)


def required_distributions(requirements):
    """The distributions of this environment that `pip install` of these requirements installs."""
    found, waiting, seen = {}, [Requirement(line) for line in requirements], set()
    while waiting:
        requirement = waiting.pop()
        name, extras = canonicalize_name(requirement.name), frozenset(requirement.extras)
        if (name, extras) in seen:
            continue
        seen.add((name, extras))
        with contextlib.suppress(metadata.PackageNotFoundError):
            found[name] = metadata.distribution(name)
            needed = map(Requirement, found[name].requires or ())
            waiting += [each for each in needed if is_needed(each, extras)]
    return found.values()


def is_needed(requirement, extras):
    return requirement.marker is None or any(requirement.marker.evaluate({"extra": extra}) for extra in ("", *extras))


def packages_of_environment():
    """What environment.yml names and pip can install; Python, pip and Node.js are those of the machine."""
    content = yaml.safe_load((ROOT / "binder" / "environment.yml").read_text())
    packages = [package for package in content["dependencies"] if not re.match(r"(python|pip|nodejs)\b", package)]
    return [package.replace("py-xgboost-cpu", "xgboost-cpu") for package in packages]


@with_postbuild
def test_binder_installs_the_package_from_a_wheel(binder):
    script = "from importlib.metadata import *; print(distribution('jupyter_gpudask').read_text('direct_url.json'))"
    origin = json.loads(binder.run("python", "-P", "-c", script))

    assert origin["url"].endswith(".whl")
    assert binder.run("python", "-P", "-c", "import jupyter_gpudask; print(jupyter_gpudask.__file__)").startswith(
        str(binder.prefix)
    )


@with_postbuild
def test_binder_installs_no_gpu_package(binder):
    extras = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["optional-dependencies"]
    ours = {Requirement(line).name for extra in ("cu12", "cu13") for line in extras[extra]}
    listing = binder.run("python", "-m", "pip", "list", "--disable-pip-version-check", "--format=json")
    installed = {package["name"].lower().replace("_", "-") for package in json.loads(listing.splitlines()[-1])}

    assert "dask" in installed
    assert not installed & ours
    # nvidia-ml-py asks the driver what there is, and is of use without one.
    assert {name for name in installed if re.search("cuda|cupy|cudf|nvidia", name)} == {"nvidia-ml-py"}


@with_postbuild
def test_binder_has_the_lab_extension_enabled(binder):
    listing = re.sub(r"\x1b\[[0-9;]*m", "", binder.run("jupyter", "labextension", "list"))

    assert re.search(r"jupyter-gpudask v\S+ enabled +OK", listing), listing


@with_postbuild
@pytest.mark.parametrize(
    "program", ["lab", *(pytest.param(program, marks=pytest.mark.slow) for program in ("notebook", "server"))]
)
def test_binder_opens_the_list_of_notebooks(binder, program):
    with binder.server(program) as (url, token):
        landed, _ = get(url, token)
        _, content = get(url + "api/contents/binder/index.ipynb?content=0", token)

    assert landed == url + "lab/tree/binder/index.ipynb"
    assert json.loads(content)["type"] == "notebook"


@with_postbuild
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


def test_the_extra_and_binder_have_the_same_packages_for_the_notebooks():
    extras = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["optional-dependencies"]
    notebooks = {*extras["notebooks"], *extras["notebooks-cpu"]} - {"jupyter_gpudask[notebooks]"}
    assert notebooks | set(extras["lab"]) == set(packages_of_environment())


def sources(notebook):
    cells = json.loads(notebook.read_text())["cells"]
    return "\n".join("".join(cell["source"]) for cell in cells if cell["cell_type"] == "code")
