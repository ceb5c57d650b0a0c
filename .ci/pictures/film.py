"""The film and the pictures in the documentation: a Jupyter server replays a recording, and a browser shows it.

    python .ci/pictures/film.py --recording .ci/pictures/NAME.json --start 12 --to 24 --out docs/images/panel.gif
    python .ci/pictures/film.py --recording .ci/pictures/NAME.json --start 20 --picture panel --out docs/images

It needs Chromium, the packages of the browser tests (``make test-browser``), and Pillow, which Matplotlib installs.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

import nbformat
from PIL import Image

if TYPE_CHECKING:
    from collections.abc import Iterator

HERE = Path(__file__).parent
SIZE_LIMIT = 1_500_000  # bytes
SLOWER = 3  # how many times as slowly it is replayed, so that the browser has time for each picture
FRAMES = 4  # pictures a second of the film


@contextmanager
def server(recording: Path, start: float, folder: Path, *, film: bool) -> Iterator[str]:
    """JupyterLab with the replay; gives its address."""
    notebook, sources = next(iter(json.loads(recording.read_text())["cells"].items()))
    cells = [nbformat.v4.new_code_cell(source) for source in sources]
    kernel = {"kernelspec": {"name": "python3", "display_name": "Python 3 (ipykernel)"}}
    nbformat.write(nbformat.v4.new_notebook(cells=cells, metadata=kernel), folder / notebook)
    environment = os.environ | {
        "GPUDASK_RECORDING": str(recording.resolve()),
        "GPUDASK_UNTIL": str(start),
        **({"GPUDASK_FILM": str(folder / ".begin")} if film else {}),
        "GPUDASK_SLOWER": str(SLOWER),
        "PYTHONPATH": str(HERE),
        **{f"JUPYTER_{kind}_DIR": str(folder / f".{kind.lower()}") for kind in ("RUNTIME", "CONFIG", "DATA")},
    }
    command = [sys.executable, "-m", "jupyterlab", "--no-browser", "--allow-root", "--port=0"]
    command += ["--IdentityProvider.token="]
    command += ["--ServerApp.jpserver_extensions={'replay': True}", "--LabApp.expose_app_in_browser=True"]
    command += [f"--ServerApp.root_dir={folder}"]
    with subprocess.Popen(command, env=environment) as process:
        try:
            information = folder / ".runtime" / f"jpserver-{process.pid}.json"
            while not (information.exists() and information.read_text().endswith("}")):
                if process.poll() is not None:
                    sys.exit("The Jupyter server did not start.")
                time.sleep(0.1)
            yield json.loads(information.read_text())["url"].rstrip("/")
        finally:
            process.terminate()


def assemble(frames: list[Path], milliseconds: int, out: Path) -> None:
    """Write the pictures as a GIF that plays three times; equal ones after each other become one that lasts longer."""
    pictures: list[Image.Image] = []
    lasts: list[int] = []
    for frame in frames:
        picture = Image.open(frame).convert("RGB")
        if pictures and picture.tobytes() == pictures[-1].tobytes():
            lasts[-1] += milliseconds
        else:
            pictures.append(picture)
            lasts.append(milliseconds)
    # One palette for all of them: what does not change is then not stored again.
    some = [pictures[0], pictures[len(pictures) // 2], pictures[-1]]
    sample = Image.new("RGB", (some[0].width, 3 * some[0].height))
    for number, picture in enumerate(some):
        sample.paste(picture, (0, number * picture.height))
    palette = sample.quantize(128, dither=Image.Dither.NONE)
    first, *others = [picture.quantize(palette=palette, dither=Image.Dither.NONE) for picture in pictures]
    first.save(out, save_all=True, append_images=others, duration=[*lasts[:-1], 3000], loop=2, optimize=True)


def main() -> int:
    """Make the film, or pictures; 1 if the film is too large."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--recording", type=Path, required=True)
    parser.add_argument("--out", type=Path, required=True, help="the film, or the folder of pictures")
    parser.add_argument("--start", type=float, required=True, help="second of the recording at which the film begins")
    parser.add_argument("--to", type=float, default=0, help="second of the recording at which the film ends")
    parser.add_argument("--picture", choices=("panel", "history"), help="take pictures of this, in place of a film")
    options = parser.parse_args()
    is_film = options.picture is None
    with (
        tempfile.TemporaryDirectory() as name,
        server(options.recording, options.start, Path(name), film=is_film) as url,
    ):
        told = [str(options.recording), str(options.start), str(options.to), str(FRAMES), str(SLOWER)]
        into = [name, "film"] if is_film else [options.out, options.picture]
        subprocess.run(["/usr/bin/env", "node", HERE / "picture.mjs", url, *into, *told], check=True)
        if not is_film:
            return 0
        frames = sorted(Path(name).glob("frame-*.png"))
        assemble(frames, 1000 // FRAMES, options.out)
    size = options.out.stat().st_size
    print(f"{options.out}: {len(frames)} pictures, {size} bytes")
    return int(size > SIZE_LIMIT)


if __name__ == "__main__":
    sys.exit(main())
