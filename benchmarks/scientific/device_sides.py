"""The sides on a GPU. Calls are timed until the device has finished."""

from __future__ import annotations

import numpy as np

from scientific import reference
from scientific.sides import Appy, Jax, Plain, rebound


class OnDevice(Plain):
    """On CuPy's arrays."""

    def __init__(self, folder):
        super().__init__(folder)
        import cupy

        self.cupy = cupy

    def about(self):
        return {"device": self.cupy.cuda.runtime.getDeviceProperties(0)["name"].decode()}

    def given(self, arguments):
        return tuple(self.cupy.asarray(a) if isinstance(a, np.ndarray) else a for a in arguments)

    def host(self, array):
        return self.cupy.asnumpy(array)

    def wait(self, result):
        self.cupy.cuda.get_current_stream().synchronize()

    def forget(self):
        self.cupy.get_default_memory_pool().free_all_blocks()


class AppyOnDevice(OnDevice, Appy):
    """Both models, on CuPy's arrays; those that appy allocates are CuPy's too."""

    def __init__(self, folder):
        super().__init__(folder)
        import appy

        appy.tensorlib = self.cupy


class CuPy(OnDevice):
    """The definition's text with CuPy as `np`, and what one writes for a device instead."""

    module = "cupy_versions"

    def found(self, name):
        further = {key: f for key, f in super().found(name).items() if key != "library"}
        return {"default": rebound(reference, np=self.cupy)[name], **further}


class DeviceLibrary(OnDevice):
    """cuBLAS, cuSOLVER and cuSPARSE through CuPy."""

    module = "cupy_versions"

    def found(self, name):
        return {key: f for key, f in super().found(name).items() if key == "library"}


class Torch(Plain):
    """NPBench has no text for torch, nor for Triton."""

    module = "torch_versions"
    kinds = {}

    def __init__(self, folder):
        super().__init__(folder)
        import torch

        torch.set_default_device("cuda")
        self.torch = torch

    def about(self):
        return {"torch": self.torch.__version__, "device": self.torch.cuda.get_device_name(0)}

    def given(self, arguments):
        def tensor(a):
            if a.dtype == np.uint32:  # of which torch has few operations
                a = a.astype(np.int32)
            return self.torch.from_numpy(np.array(a)).cuda()

        plain = lambda a: a.item() if isinstance(a, np.generic) else a  # noqa: E731
        return tuple(tensor(a) if isinstance(a, np.ndarray) else plain(a) for a in arguments)

    def host(self, array):
        return array.cpu().numpy()

    def copy(self, array):
        return array.clone()

    def refill(self, array, content):
        array.copy_(content)

    def wait(self, result):
        self.torch.cuda.synchronize()

    def forget(self):
        self.torch.cuda.empty_cache()


class Triton(Torch):
    module = "triton_versions"


class JaxOnDevice(Jax):
    def about(self):
        found = super().about()
        if found["jax_backend"] != "gpu":
            raise RuntimeError("jax has no GPU")
        return found


SIDES = {
    "appy": AppyOnDevice, "cupy": CuPy, "jax": JaxOnDevice, "torch": Torch, "triton": Triton, "library": DeviceLibrary,
}  # fmt: skip
