"""NVIDIA's own compiler, which needs no device. scripts/test installs its wheel: where it is missing, these tests fail."""

from __future__ import annotations

import shutil
import struct
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent.parent

KERNEL = """
#include "twice.h"
struct Params { double* out; const double* in; long long n; };
extern "C" __global__ void __launch_bounds__(256) twice(const Params p) {
  extern __shared__ unsigned char bytes[];
  const long long i = blockIdx.x * (long long)blockDim.x + threadIdx.x;
  double* shared = reinterpret_cast<double*>(bytes);
  shared[threadIdx.x] = i < p.n ? p.in[i] : 0.0;
  __syncthreads();
  if (i < p.n) p.out[i] = twice_of(shared[threadIdx.x]);
}
"""
HEADER = "__device__ double twice_of(double x) { return 2 * x; }\n"
COMPILE = f"""
from appy import _C
import sys
try:
    made = _C.gpu_compile("twice.cu", {KERNEL!r}, int(sys.argv[1]), [("twice.h", {HEADER!r})], sys.argv[2:])
except RuntimeError as error:
    print(error)
else:
    print(made["ptx"], made["architecture"], made["version"], made["code"].hex())
"""


@pytest.fixture
def compile_for(python):
    return lambda capability, *options: python("-c", COMPILE, str(capability), *options, emulated=False)


@pytest.mark.parametrize("capability", [80, 90, 100])
def test_machine_code(compile_for, capability):
    ptx, architecture, version, code = compile_for(capability, "--std=c++17", "--fmad=false").split()
    assert ptx == "False" and int(architecture) == capability and int(version) >= 12000
    elf = bytes.fromhex(code)
    # An ELF file for NVIDIA's machines (190), with the kernel in a section of its own.
    assert elf[:4] == b"\x7fELF" and struct.unpack_from("<H", elf, 18) == (190,)
    assert b".text.twice\0" in elf


BFLOATS = """#include "appy_device.h"
extern "C" __global__ void round_up(unsigned short* x, float* y) {
  x[threadIdx.x] = appy_float_to_bfloat(appy_bfloat_to_float(x[threadIdx.x]) + y[threadIdx.x]);
}
"""


@pytest.mark.parametrize("capability", [75, 80, 90, 100])
def test_bfloat16_compiles_for_each_architecture(python, capability):
    """From 8.0 on by an instruction, before by integers."""
    text = f"""
from appy import _C
made = _C.gpu_compile("bfloats.cu", {BFLOATS!r}, {capability}, _C.gpu_headers(), ["--std=c++17", "--fmad=false"])
print(made["ptx"], b".text.round_up" in made["code"])
"""
    assert python(text, emulated=False).split() == ["False", "True"]


HALVES = """#include "appy_update.h"
extern "C" __global__ void add_one(unsigned short* x, unsigned char* y) {
  update_by_exchange(x, [](unsigned short old) -> unsigned short { return old + 1; });
  update_by_exchange(y, [](unsigned char old) -> unsigned char { return old + 1; });
}
"""


def test_two_bytes_are_exchanged_by_themselves(python):
    """The word around the last of an odd number of them ends behind the array."""
    text = f"""
from appy import _C
made = _C.gpu_compile("halves.cu", {HALVES!r}, 150, _C.gpu_headers(), ["--std=c++17", "--fmad=false"])
print(made["code"].decode())
"""
    exchanges = [line for line in python(text, emulated=False).splitlines() if "cas" in line and "atom" in line]
    assert len(exchanges) == 2 and ".b16" in exchanges[0] and ".b32" in exchanges[1]


def test_architecture_of_the_future(compile_for):
    ptx, architecture, version, code = compile_for(150).split()
    text = bytes.fromhex(code).decode()
    assert ptx == "True" and f".target sm_{architecture}" in text and ".entry twice(" in text


def test_architecture_of_the_past(compile_for):
    assert "does not compile for compute capability 2.0; its oldest one is" in compile_for(20)


def test_unknown_option(compile_for):
    assert "NVRTC_ERROR_INVALID_OPTION" in compile_for(90, "--no-such-option")


def test_log_of_a_wrong_kernel(python):
    text = "from appy import _C\ntry: _C.gpu_compile('w.cu', 'int f() { return x; }', 90)\nexcept RuntimeError as e: print(e)"
    assert 'w.cu(1): error: identifier "x" is undefined' in python(text, emulated=False)


def path_of(python, **variables):
    return python(
        "from appy import _C; c = _C.gpu_compiler(); print(c['path'] or c['problem'])", emulated=False, **variables
    ).strip()


def test_search_order(python, tmp_path, emulator_path):
    """The variable, what the process has loaded, wheels, toolkits; and a file that cannot be loaded is passed over."""
    found = path_of(python)
    paths = {}
    for name in (
        "nvidia/cu13/lib/libnvrtc.so.13",
        "nvidia/cuda_nvrtc/lib/libnvrtc.so.12",
        "toolkit/lib64/libnvrtc.so.13",
    ):
        path = paths[Path(name).parts[1]] = tmp_path / name
        path.parent.mkdir(parents=True)
        path.symlink_to(emulator_path)
    wheels = f"{tmp_path}:{ROOT}"
    toolkit = {"CUDA_PATH": tmp_path / "toolkit"}
    assert path_of(python, PYTHONPATH=wheels, **toolkit) == str(paths["cu13"])
    paths["cu13"].unlink()
    assert path_of(python, PYTHONPATH=wheels, **toolkit) == str(paths["cuda_nvrtc"])
    paths["cuda_nvrtc"].unlink()
    paths["cuda_nvrtc"].write_text("no library")
    # This interpreter may have a wheel of its own.
    own = "site-packages" in found
    assert path_of(python, PYTHONPATH=wheels, **toolkit) == (found if own else str(paths["lib64"]))
    assert path_of(python, PYTHONPATH=wheels, APPY_LIBNVRTC=paths["lib64"]) == str(paths["lib64"])
    loaded = f"import ctypes; ctypes.CDLL({found!r}); from appy import _C; print(_C.gpu_compiler()['path'])"
    assert python(loaded, emulated=False, PYTHONPATH=wheels).strip() == found
    assert "not found: /nowhere" in path_of(python, APPY_LIBNVRTC="/nowhere")


def test_older_major_version_for_an_older_driver(python, tmp_path, emulator_path):
    for name in ("nvidia/cu13/lib/libnvrtc.so.13", "nvidia/cuda_nvrtc/lib/libnvrtc.so.12"):
        (tmp_path / name).parent.mkdir(parents=True)
        shutil.copyfile(emulator_path, tmp_path / name)  # a link would be the library that is loaded as the driver
    for driver, expected in (
        (13000, "nvidia/cu13/lib/libnvrtc.so.13"),
        (12040, "nvidia/cuda_nvrtc/lib/libnvrtc.so.12"),
    ):
        variables = {"APPY_LIBCUDA": emulator_path, "APPY_EMULATOR_DRIVER": driver}
        assert path_of(python, PYTHONPATH=f"{tmp_path}:{ROOT}", **variables).endswith(expected)
