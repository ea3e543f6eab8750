// What tune=True finds for kernels on devices is kept by the Python package (appy/_tune_store.py).
#pragma once

#include <Python.h>

#include <string>

#include "gpu/tuning.h"

namespace appy {

/// Functions of Python that C++ calls: load(key), save(key, choice), progress(name, done, all). Kept.
void set_tuning(PyObject* load, PyObject* save, PyObject* progress);

/// For kernels of the region with this name.
gpu::TuningStore tuning_store(const std::string& name);

}  // namespace appy
