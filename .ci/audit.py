"""Run pip-audit on a folder of packages: ``audit.py PIP-AUDIT FOLDER``.

The exit status is 1 if a package has a known vulnerability, or could not be audited while others could. Without a
connection to PyPI's list of vulnerabilities nothing can be audited; this prints so, with status 0.
"""

import json
import subprocess
import sys

OWN = "jupyter-gpudask"  # not on PyPI until it is released
NO_LIST = (
    "Not audited: PyPI's list of known vulnerabilities cannot be reached from here. Run this with a network connection."
)
NO_CONNECTION = ("ConnectionError", "ProxyError", "ConnectTimeout", "ReadTimeout", "Could not connect")


def audit(command: list[str]) -> int:
    """Run pip-audit, print what it found, and return the exit status."""
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if not done.stdout:
        failure = done.stderr.strip()
        if any(name in failure for name in NO_CONNECTION):
            print(NO_LIST)
            return 0
        print(failure)
        return done.returncode or 1
    packages = [each for each in json.loads(done.stdout)["dependencies"] if each["name"].replace("_", "-") != OWN]
    skipped = [each["skip_reason"] for each in packages if "skip_reason" in each]
    if len(skipped) == len(packages):
        print(NO_LIST)
        return 0
    for package in packages:
        for found in package.get("vulns", []):
            fixed = ", ".join(found["fix_versions"]) or "no release"
            print(f"{package['name']} {package['version']} has {found['id']}, corrected in: {fixed}.")
    print(*skipped, f"Audited {len(packages) - len(skipped)} of {len(packages)} packages.", sep="\n")
    return int(bool(skipped) or done.returncode != 0)


if __name__ == "__main__":
    program, folder = sys.argv[1:]
    sys.exit(audit([program, "--progress-spinner", "off", "--format", "json", "--path", folder]))
