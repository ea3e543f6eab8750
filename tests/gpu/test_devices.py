"""appy.devices() and the doctor: with a device, and with each of the things missing that a device needs."""

from __future__ import annotations

import os
import re
import shutil
import sys
import time
from pathlib import Path

import pytest

import appy

DOCTOR = ("-m", "appy", "doctor")


def section(report: str, label: str) -> str:
    """The lines of a report that belong to a label, as one."""
    found = re.search(rf"^{label} .*(?:\n .*)*", report, re.MULTILINE)
    assert found, report
    return re.sub(r"\s+", " ", found.group())


def test_import_loads_no_library(python):
    text = "import sys, appy; print([l for l in open('/proc/self/maps') if 'libcuda' in l or 'nvrtc' in l])"
    assert python(text) == "[]\n"
    assert python("import appy\n@appy.jit\ndef f(a):\n  for i in range(3): a[i] += 1\n" + text) == "[]\n"


def test_import_imports_nothing_for_devices(python):
    text = "import sys, appy; print([m for m in ('dataclasses', 'appy._devices', 'appy._doctor') if m in sys.modules])"
    assert python(text) == "[]\n"


def test_devices(python):
    out = python(
        "import appy; a, b = appy.devices(); print(a.ordinal, b.ordinal, a.name, a.compute_capability, "
        "a.multiprocessors, a.memory_bytes, a.cooperative_launch, a.shared_bytes_per_block); print(a)",
        APPY_EMULATOR_DEVICES=2,
    )
    assert out.startswith("0 1 Emulated device (9, 0) 2 4294967296 True 232448\nDevice(ordinal=0, ")


@pytest.mark.parametrize(
    "variables",
    [
        {"emulated": False, "APPY_LIBCUDA": "/nowhere/libcuda.so.1"},
        {"APPY_LIBCUDA": sys.executable},
        {"APPY_EMULATOR_DEVICES": 0},
        {"APPY_EMULATOR_DRIVER": 11080},
        {"APPY_EMULATOR_INIT": 803},
        {"APPY_EMULATOR_INIT": 999},
    ],
)
def test_no_devices_is_no_error(python, variables):
    assert python("import appy; print(appy.devices(), appy.devices())", **variables) == "[] []\n"
    report = python(*DOCTOR, **variables)
    assert "not usable" in section(report, "driver")
    assert section(report, "devices") == "devices none"


def test_driver_that_fails_later(python):
    failure = {"APPY_EMULATOR_FAIL": "cuDeviceGetCount:1:999"}
    assert python("import appy; print(appy.devices())", **failure) == "[]\n"
    report = section(python(*DOCTOR, **failure), "devices")
    assert report.startswith("devices none not usable: ") and "cuDeviceGetCount failed" in report


def test_doctor_with_everything(python, tmp_path, emulator_path):
    for _ in range(2):
        report = python(*DOCTOR, APPY_LIBCUBLAS=emulator_path, APPY_LIBCUSOLVER=emulator_path)
        assert "->" not in report.split("NumPy")[0], report
        assert re.match(r"appy 0\.1\.0, CPython 3\.\d+\.\d+, Linux x86_64\n", report)
        assert re.search(r"threads$", section(report, "processor"))
        assert "CUDA 13.0, " in section(report, "driver")
        assert "13.0, " in section(report, "NVRTC") and "for 7.5, 8.0, 9.0, 10.0" in section(report, "NVRTC")
        assert section(report, "cuBLAS") == f"cuBLAS 13.1, {emulator_path}"
        assert section(report, "cuSOLVER") == f"cuSOLVER 12.1, {emulator_path}"
        devices = section(report, "devices")
        assert "0: Emulated device, compute capability 9.0, 2 multiprocessors, 4.0 GiB" in devices
        assert "a kernel was compiled and ran" in devices
        assert f"{tmp_path}/cache/kernels: 1 files" in section(report, "cache")
    assert [p.stat().st_mode & 0o777 for p in (tmp_path / "cache/kernels").iterdir()] == [0o600]


def test_doctor_names_a_missing_driver(python):
    report = section(python(*DOCTOR, emulated=False, APPY_LIBCUDA="/nowhere/libcuda.so.1"), "driver")
    assert "NVIDIA's driver was not found: /nowhere/libcuda.so.1" in report
    assert "-> Install the NVIDIA driver, or start the container with GPUs" in report


def test_doctor_names_an_old_driver(python):
    report = section(python(*DOCTOR, APPY_EMULATOR_DRIVER=11080), "driver")
    assert "CUDA 11.8" in report and "CUDA 12.0 is needed" in report and "-> Update the driver" in report


def test_doctor_names_a_driver_without_devices(python):
    report = section(python(*DOCTOR, APPY_EMULATOR_DEVICES=0), "driver")
    assert "shows no device (CUDA_ERROR_NO_DEVICE)" in report and "CUDA_VISIBLE_DEVICES" in report


def test_doctor_names_a_driver_that_does_not_fit_its_kernel_module(python):
    report = section(python(*DOCTOR, APPY_EMULATOR_INIT=803), "driver")
    assert "CUDA_ERROR_SYSTEM_DRIVER_MISMATCH" in report and "-> Restart the machine" in report


@pytest.mark.parametrize(
    "driver, wheel", [("13000", "pip install nvidia-cuda-nvrtc,"), ("12080", "pip install nvidia-cuda-nvrtc-cu12,")]
)
def test_doctor_names_a_missing_compiler(python, driver, wheel):
    report = python(*DOCTOR, APPY_LIBNVRTC="/nowhere/libnvrtc.so.13", APPY_EMULATOR_DRIVER=driver)
    assert "NVRTC, NVIDIA's compiler for kernels, was not found: /nowhere/libnvrtc.so.13" in section(report, "NVRTC")
    assert f"-> {wheel} or set CUDA_PATH" in section(report, "NVRTC")
    assert "was not found" in section(report, "devices")


def test_doctor_names_an_old_compiler(python):
    report = section(python(*DOCTOR, APPY_EMULATOR_NVRTC=11080), "NVRTC")
    assert "is version 11.8; 12.0 or later is needed" in report


def test_doctor_names_a_compiler_newer_than_the_driver(python):
    report = python(*DOCTOR, APPY_EMULATOR_NVRTC=13000, APPY_EMULATOR_DRIVER=12080)
    assert "-> it is newer than the driver: pip install nvidia-cuda-nvrtc-cu12" in section(report, "NVRTC")
    assert "the driver is for CUDA 12.8, and NVRTC 13.0 compiled the kernel" in section(report, "devices")


def test_older_compiler_of_the_drivers_major_version(python):
    report = python(*DOCTOR, APPY_EMULATOR_NVRTC=12040, APPY_EMULATOR_DRIVER=12080)
    assert "a kernel was compiled and ran" in section(report, "devices")


def test_device_newer_than_the_compiler_runs_ptx(python):
    report = python(*DOCTOR, APPY_EMULATOR_CAPABILITY=120)
    assert "compute capability 12.0" in section(report, "devices")
    assert "a kernel was compiled and ran" in section(report, "devices")


def test_device_older_than_the_compiler_knows(python):
    report = section(python(*DOCTOR, APPY_EMULATOR_CAPABILITY=70), "devices")
    assert "does not compile for compute capability 7.0; its oldest one is 7.5" in report
    assert "pip install nvidia-cuda-nvrtc-cu12" in report


def test_device_older_than_the_memory_model(python):
    report = section(python(*DOCTOR, APPY_EMULATOR_CAPABILITY=61), "devices")
    assert "has compute capability 6.1; 7.0 is needed" in report


@pytest.mark.parametrize(
    "failure, what",
    [
        ("cuDevicePrimaryCtxRetain:1:2", "the device is out of memory, the context of device 0: cuDevicePrimaryCtx"),
        ("cuMemAllocAsync:1,cuMemAllocAsync:2", "the device is out of memory, 4000 bytes were asked for, "),
        ("cuMemHostAlloc:1", "65536 bytes of pinned memory: cuMemHostAlloc failed with CUDA_ERROR_OUT_OF_MEMORY"),
        ("cuModuleLoadDataEx:1:209", "machine code for sm_90 on a device of 9.0: cuModuleLoadDataEx"),
        ("cuLaunchKernel:1:701", "kernel self_test with 8x1x1 blocks of 128x1x1 threads"),
        ("cuMemcpyDtoHAsync_v2:1:700", "the device is lost to this process"),
        ("cuLaunchKernel:1:719", "(unspecified launch failure) -> Every later use of the device in this process fails"),
    ],
)
def test_doctor_names_what_failed(python, failure, what):
    report = section(python(*DOCTOR, APPY_EMULATOR_FAIL=failure), "devices")
    assert "not usable: " in report and what in report


def test_device_is_usable_after_running_out_of_memory(python):
    out = python(
        "from appy import _C; import os\n"
        "print(_C.gpu_self_test(0)[0][:27])\n"
        "del os.environ['APPY_EMULATOR_FAIL']\n"
        "print(_C.gpu_self_test(0))",
        APPY_EMULATOR_FAIL="cuMemAllocAsync:1,cuMemAllocAsync:2",
    )
    assert out == "the device is out of memory\n('', '')\n"


def test_lost_device_stays_lost(python):
    out = python(
        "from appy import _C; import os\n"
        "print(_C.gpu_self_test(0)[0])\n"
        "del os.environ['APPY_EMULATOR_FAIL']\n"
        "print(_C.gpu_self_test(0)[0])",
        APPY_EMULATOR_FAIL="cuLaunchKernel:1:700",
    )
    first, second = out.splitlines()
    assert first.startswith("the device is lost to this process, kernel self_test") and "cuLaunchKernel" in first
    assert second.startswith("the device is lost to this process, device 0: an earlier call failed with CUDA_ERROR_ILL")


def test_forked_child(python):
    text = """
import os, sys
from appy import _C
import appy
def child():
    pid = os.fork()
    if pid:
        assert os.waitpid(pid, 0)[1] == 0
    return pid == 0
if child():
    assert _C.gpu_self_test(0) == ("", "")  # the parent has not used it
    os._exit(0)
assert _C.gpu_self_test(0) == ("", "")
if child():
    problem, remedy = _C.gpu_self_test(0)
    assert "before this process was forked" in problem and "spawn" in remedy, problem
    assert appy.devices() == []
    os._exit(0)
assert _C.gpu_self_test(0) == ("", "")
"""
    assert python(text) == ""


def test_warm_process_does_not_load_the_compiler(python, tmp_path, emulator_path):
    # A copy under another name: the driver and the compiler are one file otherwise, which is loaded anyway.
    library = tmp_path / "libnvrtc-copy.so"
    shutil.copyfile(emulator_path, library)
    text = "from appy import _C\nprint(_C.gpu_self_test(0), 'nvrtc-copy' in open('/proc/self/maps').read())"
    assert python(text, APPY_LIBNVRTC=library) == "('', '') True\n"
    assert python(text, APPY_LIBNVRTC=library) == "('', '') False\n"
    library.touch()  # another compiler, as far as one can tell
    assert python(text, APPY_LIBNVRTC=library) == "('', '') True\n"


def test_unusable_cache_is_named_and_left_alone(python, tmp_path):
    (tmp_path / "cache").mkdir()
    (tmp_path / "cache/kernels").mkdir(mode=0o700)
    (tmp_path / "cache/kernels").chmod(0o777)
    report = python(*DOCTOR)
    assert "not used, kernels are compiled anew in each process: others may write" in section(report, "cache")
    assert "a kernel was compiled and ran" in section(report, "devices")
    assert list((tmp_path / "cache/kernels").iterdir()) == []


def test_cache_forgets_what_was_not_used_for_longest(python, tmp_path):
    folder = tmp_path / "cache/kernels"
    folder.mkdir(parents=True, mode=0o700)
    ages = {"old.image": 5, "older.image": 6, "recent.image": 1, "left.tmp": 3, "made.tmp": 0, "foreign": 9}
    for name, days in ages.items():
        with open(folder / name, "wb") as file:
            file.truncate(200 << 20 if name.endswith(".image") else 10)  # without data: it takes no room
        then = time.time() - days * 86400
        os.utime(folder / name, (then, then))
    python("from appy import _C; assert _C.gpu_self_test(0) == ('', '')")
    kept = {path.name for path in folder.iterdir()}
    assert kept & set(ages) == {"recent.image", "made.tmp", "foreign"}
    assert len(kept) == 4


def test_use_of_a_kernel_is_noted(python, tmp_path):
    text = "from appy import _C; assert _C.gpu_self_test(0) == ('', '')"
    python(text)
    (file,) = (tmp_path / "cache/kernels").iterdir()
    os.utime(file, (1e9, 1e9))
    python(text)
    assert time.time() - file.stat().st_mtime < 1000


def test_doctor_names_broken_libraries(python, tmp_path):
    (tmp_path / "torch.py").write_text("raise OSError('libfoo.so: no such file')")
    (tmp_path / "cupy.py").write_text("import a_missing_module")
    root = str(Path(appy.__file__).parent.parent)
    report = python(*DOCTOR, PYTHONPATH=f"{tmp_path}:{root}")
    assert section(report, "torch") == "torch cannot be imported: libfoo.so: no such file"
    assert section(report, "CuPy") == "CuPy cannot be imported: No module named 'a_missing_module'"
    (tmp_path / "torch.py").write_text("__version__ = '2.9'\nclass version: cuda = None")
    (tmp_path / "cupy.py").write_text("__version__ = '14.0'")
    report = python(*DOCTOR, PYTHONPATH=f"{tmp_path}:{root}")
    assert section(report, "torch") == "torch 2.9, without CUDA"
    assert section(report, "CuPy") == "CuPy 14.0"


def test_errors_are_exceptions_of_the_package():
    assert issubclass(appy.DeviceError, RuntimeError)
    assert issubclass(appy.DeviceMemoryError, appy.DeviceError) and issubclass(appy.DeviceMemoryError, MemoryError)
