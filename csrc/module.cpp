// Python bindings of the extension module appy._C; appy/_C.pyi is its stub.
#include <pybind11/pybind11.h>
#include <pybind11/stl.h>

#include <algorithm>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

#include "cpu/cpu.h"
#include "frame/functions.h"
#include "frame/region.h"
#include "gpu/blas.h"
#include "gpu/device.h"
#include "gpu/nvrtc.h"
#include "gpu/prelude.h"
#include "gpu/self_test.h"
#include "gpu/solution.h"
#include "gpu/solver.h"
#include "jit.h"
#include "jit_tuning.h"
#include "lower.h"
#include "pragma/pragma.h"
#include "pycompat/locals.h"
#include "runtime/late.h"
#include "runtime/pool.h"
#include "runtime/raise.h"
#include "runtime/recycled.h"
#include "support/abort.h"
#include "support/disk_cache.h"

namespace py = pybind11;

namespace {

using appy::Lowered;
using appy::RegionCache;

/// The exceptions of the package that C++ raises; kept for the life of the process.
PyObject* compile_error = PyExc_RuntimeError;
PyObject* pragma_syntax_error = nullptr;
PyObject* stop_lowering = nullptr;
PyObject* device_error = PyExc_RuntimeError;
PyObject* device_memory_error = PyExc_MemoryError;

appy::Ref ref_of(const py::handle& object) { return appy::Ref::borrow(object.ptr()); }

py::dict parse_pragma(const std::string& text) {
  appy::pragma::Pragma pragma = appy::pragma::parse(text);
  py::dict out;
  out["kind"] = pragma.loop ? "loop" : pragma.atomic ? "atomic" : "tensor";
  py::list items;
  for (const appy::pragma::TensorItem& item : pragma.items) items.append(item.dim);
  out["items"] = py::tuple(items);
  return out;
}

/// (line, end_line, column, end_column, array, axis, text, items).
appy::pragma::NamedSlice named_slice(const py::handle& of) {
  const auto row = py::cast<py::tuple>(of);
  appy::pragma::NamedSlice out;
  out.line = py::cast<int>(row[0]);
  out.end_line = py::cast<int>(row[1]);
  out.column = py::cast<int>(row[2]);
  out.end_column = py::cast<int>(row[3]);
  out.array = py::cast<std::string>(row[4]);
  out.axis = py::cast<int>(row[5]);
  out.text = py::cast<std::string>(row[6]);
  out.items = py::cast<std::vector<int>>(row[7]);
  return out;
}

/// (text, line, end_line, iter_line, iter_column, pragma_line) each, and (slices, extents, targets) where there are
/// items: extents are (name, array, axis).
std::vector<appy::pragma::Placed> placed_pragmas(const py::sequence& rows) {
  std::vector<appy::pragma::Placed> out;
  for (const py::handle& item : rows) {
    auto row = py::cast<py::tuple>(item);
    appy::pragma::Placed placed;
    placed.pragma = appy::pragma::parse(py::cast<std::string>(row[0]));
    placed.line = py::cast<int>(row[1]);
    placed.end_line = py::cast<int>(row[2]);
    placed.iter_line = py::cast<int>(row[3]);
    placed.iter_column = py::cast<int>(row[4]);
    placed.pragma_line = py::cast<int>(row[5]);
    if (row.size() > 6) {
      for (const py::handle& slice : py::cast<py::tuple>(row[6])) placed.slices.push_back(named_slice(slice));
      for (const py::handle& extent : py::cast<py::tuple>(row[7])) {
        const auto [name, array, axis] = py::cast<std::tuple<std::string, std::string, int>>(extent);
        placed.extents.push_back({name, array, axis});
      }
      placed.targets = py::cast<std::vector<std::string>>(row[8]);
    }
    out.push_back(std::move(placed));
  }
  return out;
}

appy::Backend backend_of(const std::string& name) {
  if (name == "cpu") return appy::Backend::cpu;
  if (name == "eval") return appy::Backend::eval;
  if (name == "auto") return appy::Backend::automatic;
  if (name == "cuda" || name == "triton") return appy::Backend::cuda;
  throw py::value_error("backend must be 'auto', 'cpu', 'cuda' or 'eval', not '" + name + "'");
}

std::string backend_name(appy::Backend backend) {
  static constexpr const char* names[] = {"auto", "cpu", "eval", "cuda"};
  return names[static_cast<size_t>(backend)];
}

uint8_t stages_of(const std::string& names) {
  std::string unknown;
  uint8_t bits = appy::parse_stages(names, &unknown);
  if (!unknown.empty()) throw py::value_error("'" + unknown + "' is no stage: bytecode, ir, passes, asm");
  return bits;
}

/// Writes one option into a struct of options.
template <class Options>
struct Setter {
  const char* name;
  void (*set)(Options&, const py::handle& value);
};

template <auto member, class Options>
void assign(Options& to, const py::handle& value) {
  to.*member = py::cast<std::remove_reference_t<decltype(to.*member)>>(value);
}

template <class Options>
void set_backend(Options& to, const py::handle& value) {
  to.backend = backend_of(py::cast<std::string>(value));
}

template <class Options>
void set_dump(Options& to, const py::handle& value) {
  to.dump = stages_of(py::cast<std::string>(value));
}

template <class Options, size_t count>
void set_options(Options& to, const Setter<Options> (&setters)[count], const py::dict& values, const char* what) {
  for (auto [key, value] : values) {
    const auto name = py::cast<std::string>(key);
    const auto* found = std::find_if(setters, setters + count, [&](const auto& one) { return name == one.name; });
    if (found == setters + count) throw py::type_error(std::string("unknown ") + what + " '" + name + "'");
    found->set(to, value);
  }
}

constexpr Setter<appy::RegionOptions> region_setters[] = {
    {"exact", assign<&appy::RegionOptions::exact>},         {"strict", assign<&appy::RegionOptions::strict>},
    {"dry_run", assign<&appy::RegionOptions::dry_run>},     {"group", assign<&appy::RegionOptions::group>},
    {"tune", assign<&appy::RegionOptions::tune>},           {"captured", assign<&appy::RegionOptions::captured>},
    {"repeats", assign<&appy::RegionOptions::repeats>},     {"threads", assign<&appy::RegionOptions::threads>},
    {"backend", set_backend<appy::RegionOptions>},          {"dump", set_dump<appy::RegionOptions>},
    {"auto_simd", assign<&appy::RegionOptions::auto_simd>}, {"keep_stages", assign<&appy::RegionOptions::keep_stages>},
};

constexpr Setter<appy::Config> config_setters[] = {
    {"dump", set_dump<appy::Config>},
    {"backend", set_backend<appy::Config>},
    {"isa", assign<&appy::Config::isa>},
    {"disabled_passes", assign<&appy::Config::disabled_passes>},
    {"sync", assign<&appy::Config::sync>},
    {"emulated", assign<&appy::Config::emulated>},
    {"stream_bytes", assign<&appy::Config::stream_bytes>},
};

py::object make_region(py::str key, int index, py::object code, int begin, int end, const py::sequence& pragmas,
                       const py::dict& options, const std::string& name, const std::string& file, int line,
                       int end_line, py::object recipe) {
  appy::frame::RegionParts parts;
  parts.key = ref_of(key);
  parts.index = index;
  if (!code.is_none()) parts.code = ref_of(code);
  parts.begin = begin;
  parts.end = end;
  parts.pragmas = placed_pragmas(pragmas);
  set_options(parts.options, region_setters, options, "region option");
  parts.options.name = name;
  parts.options.file = file;
  parts.options.line = line;
  parts.options.end_line = end_line;
  if (!recipe.is_none()) parts.recipe = ref_of(recipe);
  PyObject* region = appy::frame::make_region(std::move(parts));
  if (!region) throw py::error_already_set();
  return py::reinterpret_steal<py::object>(region);
}

py::dict stats_dict(const appy::Stats& stats) {
  py::dict out;
  out["regions"] = stats.regions;
  out["compiled"] = stats.compiled;
  out["runs"] = stats.runs;
  out["declined"] = stats.declined;
  out["cache_hits"] = stats.cache_hits;
  out["compile_seconds"] = stats.compile_seconds;
  return out;
}

/// Null for a region that has not seen its code yet.
RegionCache* cache_of(const py::handle& region) {
  if (Py_TYPE(region.ptr()) != appy::frame::region_type()) throw py::type_error("not a region");
  return appy::frame::region_cache(region.ptr());
}

void set_recipe(const py::object& region, const py::str& recipe) {
  cache_of(region);
  appy::frame::set_recipe(region.ptr(), recipe.ptr());
}

py::dict region_stats(const py::object& region) {
  RegionCache* cache = cache_of(region);
  return stats_dict(cache ? cache->stats() : appy::Stats{});
}

py::dict specialization_dict(const appy::SpecializationReport& one) {
  py::dict out;
  out["signature"] = one.signature;
  out["compiled"] = one.compiled;
  out["sequential"] = one.sequential;
  out["runs"] = one.runs;
  out["compile_seconds"] = one.compile_seconds;
  out["trace_seconds"] = one.trace_seconds;
  out["passes_seconds"] = one.passes_seconds;
  out["backend_seconds"] = one.backend_seconds;
  py::list remarks;
  for (const appy::RemarkReport& remark : one.remarks) {
    py::dict row;
    row["warning"] = remark.warning;
    row["stage"] = remark.stage;
    row["file"] = remark.file;
    row["line"] = remark.line;
    row["text"] = remark.text;
    remarks.append(row);
  }
  out["remarks"] = remarks;
  out["summary"] = one.summary;
  out["arrays"] = one.arrays;
  out["passes"] = one.passes;
  out["passes_from_disk"] = one.passes_from_disk;
  out["abort"] = one.abort;
  out["reason"] = one.reason;
  out["remedy"] = one.remedy;
  out["file"] = one.file;
  out["line"] = one.line;
  out["stages"] = one.stages;
  return out;
}

py::object region_report(const py::object& region) {
  RegionCache* cache = cache_of(region);
  if (!cache) return py::none();
  appy::RegionReport report = cache->report();
  // What was never one region has nothing to tell.
  if (cache->options().captured && report.stats.regions == 0) return py::none();
  py::dict out;
  out["name"] = report.name;
  out["file"] = report.file;
  out["line"] = report.line;
  out["end_line"] = report.end_line;
  out["group"] = report.group;
  out["stats"] = stats_dict(report.stats);
  py::list rows;
  for (const auto& one : report.specializations) rows.append(specialization_dict(one));
  out["specializations"] = rows;
  out["last_decline"] = report.last_decline;
  return out;
}

/// Calls `function(*args, **kwargs)` up to its first region.
std::shared_ptr<Lowered> lower(const py::object& function, const py::args& args, const py::kwargs& kwargs) {
  appy::frame::LowerNext request(stop_lowering);
  try {
    function(*args, **kwargs);
  } catch (py::error_already_set& error) {
    if (!error.matches(stop_lowering)) throw;
  }
  return request.take();
}

py::object run_lowered(const Lowered& lowered, const py::args& args, bool optimised) {
  std::vector<PyObject*> objects;
  for (const py::handle& arg : args) objects.push_back(arg.ptr());
  PyObject* result = lowered.run(objects.data(), objects.size(), optimised);
  if (!result) throw py::error_already_set();
  return py::reinterpret_steal<py::object>(result);
}

void set_hooks(py::object warn, py::object error) {
  appy::set_hooks({warn.ptr(), error.ptr()});
  compile_error = error.inc_ref().ptr();
}

void set_device_errors(py::object error, py::object memory) {
  appy::runtime::set_device_errors(error.ptr(), memory.ptr());
  device_error = error.inc_ref().ptr();
  device_memory_error = memory.inc_ref().ptr();
}

void set_config(const py::dict& changes) { set_options(appy::config(), config_setters, changes, "option"); }

py::dict get_config() {
  const appy::Config& config = appy::config();
  py::dict out;
  std::string dump;
  const std::pair<int, const char*> stages[] = {{appy::stage_bytecode, "bytecode"},
                                                {appy::stage_ir, "ir"},
                                                {appy::stage_passes, "passes"},
                                                {appy::stage_asm, "asm"}};
  for (auto [bit, name] : stages) {
    if (config.dump & bit) dump += (dump.empty() ? "" : ",") + std::string(name);
  }
  out["dump"] = dump;
  out["backend"] = backend_name(config.backend);
  out["isa"] = config.isa;
  out["disabled_passes"] = config.disabled_passes;
  out["sync"] = config.sync;
  out["emulated"] = config.emulated;
  out["stream_bytes"] = config.stream_bytes;
  return out;
}

/// The graph is verified after tracing and after each pass, which takes longer.
bool verifies_passes() {
#ifdef APPY_VERIFY_PASSES
  return true;
#else
  return false;
#endif
}

bool install_hook(const py::iterable& codes) {
  for (py::handle code : codes) {
    if (!PyCode_Check(code.ptr())) throw py::type_error("a code object is needed");
    if (!appy::frame::await_code(reinterpret_cast<PyCodeObject*>(code.ptr()))) return false;
  }
  return appy::frame::install_hook();
}

PyCodeObject* code_of(const py::object& object) {
  if (!PyCode_Check(object.ptr())) throw py::type_error("not a code object");
  return reinterpret_cast<PyCodeObject*>(object.ptr());
}

bool copy_kinds(const py::object& code, const py::object& other) {
  return appy::pycompat::copy_kinds(code_of(code), code_of(other));
}

void replace_constant(const py::object& code, Py_ssize_t index, const py::object& value) {
  PyCodeObject* object = code_of(code);
  if (index < 0 || index >= PyTuple_GET_SIZE(object->co_consts)) throw py::index_error("no such constant");
  appy::frame::replace_constant(object, index, value.ptr());
}

py::dict properties_dict(const appy::gpu::Properties& of) {
  py::dict out;
  out["ordinal"] = of.ordinal;
  out["name"] = of.name;
  out["compute_capability"] = py::make_tuple(of.compute_capability / 10, of.compute_capability % 10);
  out["multiprocessors"] = of.multiprocessors;
  out["memory_bytes"] = of.memory_bytes;
  out["l2_bytes"] = of.l2_bytes;
  out["shared_bytes_per_block"] = of.shared_bytes_per_block_opt_in;
  out["registers_per_block"] = of.registers_per_block;
  out["max_threads_per_block"] = of.max_threads_per_block;
  out["max_threads_per_multiprocessor"] = of.max_threads_per_multiprocessor;
  out["cooperative_launch"] = of.cooperative_launch;
  out["memory_pools"] = of.memory_pools;
  return out;
}

/// Runs it without the GIL and gives "" and "", or what failed and what helps.
template <class F>
std::pair<std::string, std::string> problem_of(F&& what) {
  const py::gil_scoped_release released;
  try {
    what();
  } catch (const appy::gpu::Error& error) {
    return {error.summary(), error.remedy()};
  }
  return {};
}

py::dict gpu_driver() {
  appy::gpu::DriverState state;
  {
    const py::gil_scoped_release released;
    state = appy::gpu::driver_state();
  }
  py::dict out;
  out["path"] = state.path;
  out["version"] = state.version;
  out["problem"] = state.error ? state.error->summary() : "";
  out["remedy"] = state.error ? state.error->remedy() : "";
  return out;
}

py::dict gpu_devices() {
  std::vector<appy::gpu::Properties> found;
  const auto [problem, remedy] = problem_of([&] { found = appy::gpu::devices(); });
  py::list rows;
  for (const auto& one : found) rows.append(properties_dict(one));
  py::dict out;
  out["devices"] = rows;
  out["problem"] = problem;
  out["remedy"] = remedy;
  return out;
}

py::dict gpu_compiler() {
  appy::gpu::Compiler found;
  const auto [problem, remedy] = problem_of([&] { found = appy::gpu::compiler(); });
  py::dict out;
  out["path"] = found.path;
  out["version"] = found.version;
  out["architectures"] = found.architectures;
  out["problem"] = problem;
  out["remedy"] = remedy;
  return out;
}

py::dict as_dict(const appy::gpu::FoundLibrary* (*find)(std::string&)) {
  std::string problem;
  const appy::gpu::FoundLibrary* const found = find(problem);
  py::dict out;
  out["path"] = found ? found->path : "";
  out["version"] = found ? found->version : 0;
  out["problem"] = problem;
  return out;
}

py::dict gpu_blas() { return as_dict(&appy::gpu::blas); }

py::dict gpu_solver() { return as_dict(&appy::gpu::solver); }

py::dict gpu_cache() {
  const appy::CacheState state = appy::cache_state();
  py::dict out;
  out["folder"] = state.folder;
  out["problem"] = state.problem;
  out["files"] = state.files;
  out["bytes"] = state.bytes;
  return out;
}

/// Waits until every device that we have used has done everything, and raises what has failed.
void gpu_synchronize() {
  for (appy::gpu::Device* device : appy::gpu::devices_used()) {
    bool done;
    {
      const py::gil_scoped_release released;
      done = device->wait();
    }
    if (!done) throw py::error_already_set();
  }
  if (appy::runtime::fault_told() && appy::runtime::raise_late_failure()) throw py::error_already_set();
}

py::tuple gpu_self_test(int ordinal) {
  const auto [problem, remedy] = problem_of([&] { appy::gpu::self_test(ordinal); });
  return py::make_tuple(problem, remedy);
}

py::dict gpu_compile(const std::string& name, const std::string& text, int compute_capability,
                     const std::vector<std::pair<std::string, std::string>>& headers,
                     const std::vector<std::string>& options) {
  appy::gpu::Source source{name, text, {}, options};
  for (const auto& [header, contents] : headers) source.headers.push_back({header, contents});
  appy::gpu::Image image;
  {
    const py::gil_scoped_release released;
    image = appy::gpu::compile(source, compute_capability);
  }
  py::dict out;
  out["code"] = py::bytes(image.code);
  out["ptx"] = image.ptx;
  out["architecture"] = image.architecture;
  out["version"] = image.version;
  out["log"] = image.log;
  return out;
}

/// The texts of kernels that no region is compiled to.
std::vector<std::string> gpu_own_kernels() {
  return {appy::gpu::solution_source(true).text, appy::gpu::solution_source(false).text};
}

/// The texts that every generated kernel includes.
std::vector<std::pair<std::string, std::string>> gpu_headers() {
  return {{"appy_ptx.h", std::string(appy::gpu::ptx_header)},
          {"appy_device.h", std::string(appy::gpu::device_header)},
          {"appy_update.h", std::string(appy::gpu::update_header)},
          {"appy_product.h", std::string(appy::gpu::product_header)}};
}

void translate(std::exception_ptr pointer) {
  try {
    if (pointer) std::rethrow_exception(pointer);
  } catch (const appy::pragma::SyntaxError& error) {
    py::tuple args = py::make_tuple(error.column, error.what());
    PyErr_SetObject(pragma_syntax_error, args.ptr());
  } catch (const appy::Abort& abort) {
    std::string where = abort.file.empty() ? "" : abort.file + ", line " + std::to_string(abort.line) + ": ";
    PyErr_SetString(compile_error, (where + abort.message()).c_str());
  } catch (const appy::gpu::Error& error) {
    const bool memory = error.kind() == appy::gpu::ErrorKind::out_of_memory;
    PyErr_SetString(memory ? device_memory_error : device_error, error.what());
  }
}

}  // namespace

// The function that the macro makes is called by ours.
#define PyInit__C make_module
PYBIND11_MODULE(_C, m) {
  m.doc() = "The compiler behind the appy package.";
  if (!appy::frame::init_region_type()) throw py::error_already_set();
  appy::read_machine();
  m.attr("Region") = py::reinterpret_borrow<py::object>(reinterpret_cast<PyObject*>(appy::frame::region_type()));
  pragma_syntax_error = PyErr_NewException("appy._C.PragmaSyntaxError", PyExc_ValueError, nullptr);
  stop_lowering = PyErr_NewException("appy._C.StopLowering", PyExc_BaseException, nullptr);
  if (!pragma_syntax_error || !stop_lowering) throw py::error_already_set();
  m.attr("PragmaSyntaxError") = py::reinterpret_borrow<py::object>(pragma_syntax_error);
  m.attr("StopLowering") = py::reinterpret_borrow<py::object>(stop_lowering);
  py::register_exception_translator(translate);

  m.def("parse_pragma", &parse_pragma, py::arg("text"));
  m.def("make_region", &make_region, py::arg("key"), py::arg("index"), py::arg("code"), py::arg("begin"),
        py::arg("end"), py::arg("pragmas"), py::arg("options"), py::arg("name"), py::arg("file"), py::arg("line"),
        py::arg("end_line"), py::arg("recipe"));
  m.def("set_recipe", &set_recipe, py::arg("region"), py::arg("recipe"));
  m.def("region_stats", &region_stats, py::arg("region"));
  m.def("region_report", &region_report, py::arg("region"));
  m.def("global_stats", [] { return stats_dict(appy::global_stats()); });
  m.def("set_enabled", &appy::frame::set_enabled, py::arg("on"));
  m.def("is_enabled", &appy::frame::is_enabled);
  m.def("set_hooks", &set_hooks, py::arg("warn"), py::arg("compile_error"));
  m.def("set_device_errors", &set_device_errors, py::arg("error"), py::arg("memory"));
  m.def(
      "set_tuning",
      [](const py::object& load, const py::object& save, const py::object& progress) {
        appy::set_tuning(load.ptr(), save.ptr(), progress.ptr());
      },
      py::arg("load"), py::arg("save"), py::arg("progress"));
  m.def("get_config", &get_config);
  m.def("set_config", &set_config, py::arg("changes"));
  m.def(
      "frame_reads",
      [](const py::object& a, const py::object& b) { return appy::frame::frame_reads(a.ptr(), b.ptr()); }, py::arg("a"),
      py::arg("b"));
  m.def(
      "recycling",
      [](const py::object& make, const py::args& args, const py::kwargs& kwargs) {
        const appy::runtime::Recycling scope;
        return make(*args, **kwargs);
      },
      py::arg("make"));
  m.def(
      "set_decider",
      [](const py::object& decide) { appy::frame::set_decider(decide.is_none() ? nullptr : decide.ptr()); },
      py::arg("decide"));
  m.def("install_hook", &install_hook, py::arg("codes"));
  m.def("remove_hook", &appy::frame::remove_hook);
  m.def("hook_installed", &appy::frame::hook_installed);
  m.def("watch_functions", &appy::frame::watch_functions, py::arg("on"));
  m.def("copy_kinds", &copy_kinds, py::arg("code"), py::arg("other"));
  m.def("replace_constant", &replace_constant, py::arg("code"), py::arg("index"), py::arg("value"));

  m.def("detected_isa", [] { return std::string(appy::cpu::name_of(appy::cpu::detect())); });
  m.def("verifies_passes", &verifies_passes);
  m.def("default_threads", &appy::runtime::default_threads);
  m.def("set_wheel_folders", &appy::gpu::set_wheel_folders, py::arg("folders"));
  m.def("gpu_driver", &gpu_driver);
  m.def("gpu_devices", &gpu_devices);
  m.def("gpu_compiler", &gpu_compiler);
  m.def("gpu_blas", &gpu_blas);
  m.def("gpu_solver", &gpu_solver);
  m.def("gpu_headers", &gpu_headers);
  m.def("gpu_own_kernels", &gpu_own_kernels);
  m.def("gpu_cache", &gpu_cache);
  m.def("gpu_synchronize", &gpu_synchronize);
  m.def("gpu_self_test", &gpu_self_test, py::arg("ordinal"));
  m.def("gpu_compile", &gpu_compile, py::arg("name"), py::arg("text"), py::arg("compute_capability"),
        py::arg("headers") = py::list(), py::arg("options") = py::list());

  py::class_<Lowered, std::shared_ptr<Lowered>>(m, "Lowered")
      .def("text", &Lowered::text, py::arg("optimised") = false)
      .def("footprints", &Lowered::footprints)
      .def("parameters", &Lowered::parameters)
      .def("run", &run_lowered, py::kw_only(), py::arg("optimised") = false);
  m.def("lower", &lower, py::arg("function"));
}
#undef PyInit__C

/// PyGILState_Ensure, which pybind11 and our signal handling call, knows the main interpreter only and may wait for
/// ever in another one.
extern "C" PYBIND11_EXPORT PyObject* PyInit__C() {
  if (PyInterpreterState_Get() == PyInterpreterState_Main()) return make_module();
  PyErr_SetString(PyExc_ImportError, "appy runs in the main interpreter only, not in subinterpreters");
  return nullptr;
}
