// appy.lower: a region's graph handed to Python as text, footprints and something that can be run.
#pragma once

#include <Python.h>

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "ir/ir.h"
#include "runtime/signature.h"

namespace appy {

class Lowered {
 public:
  Lowered(std::unique_ptr<ir::Graph> traced, std::unique_ptr<ir::Graph> optimised, runtime::Signature signature);
  ~Lowered();

  /// The graph as traced, or after the passes.
  std::string text(bool optimised) const;
  /// What the traced graph reads and writes, array by array, as text.
  std::string footprints() const;
  /// (name, type as text) of each parameter, in order; the name is that of the input it comes from.
  std::vector<std::pair<std::string, std::string>> parameters() const;

  /// Runs a graph on the reference evaluator. `args` holds one object a parameter: an ndarray of the view's dtype, rank
  /// and layout, or a number. Arrays are written in place. Returns a new dict {"outcome": "done" | "declined" |
  /// "failed", "results": [...], "check": ordinal or None, "info": [...]}, or null with an exception set.
  PyObject* run(PyObject* const* args, size_t count, bool optimised) const;

 private:
  std::unique_ptr<ir::Graph> traced_, optimised_;
  runtime::Signature signature_;
};

}  // namespace appy
