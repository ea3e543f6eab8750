#include "runtime/device_arrays.h"

#include <algorithm>
#include <array>
#include <cstring>
#include <string_view>
#include <vector>

#include "runtime/cupy_api.h"
#include "runtime/dlpack.h"
#include "runtime/numpy.h"

namespace appy::runtime {
namespace {

using ir::DType;

constexpr const char* no_array = "cannot be read";
constexpr const char* no_dtype = "has a dtype without compiled form";
constexpr const char* too_many_dimensions = "has more than 32 dimensions";

/// Attribute names, interned once.
PyObject* name(const char* text) { return PyUnicode_InternFromString(text); }

struct Names {
  PyObject* data = name("data");
  PyObject* ptr = name("ptr");
  PyObject* device_id = name("device_id");
  PyObject* device = name("device");
  PyObject* id = name("id");
  PyObject* shape = name("shape");
  PyObject* strides = name("strides");
  PyObject* dtype = name("dtype");
  PyObject* data_ptr = name("data_ptr");
  PyObject* stride = name("stride");
  PyObject* get_device = name("get_device");
  PyObject* is_cuda = name("is_cuda");
  PyObject* is_conj = name("is_conj");
  PyObject* is_neg = name("is_neg");
  PyObject* requires_grad = name("requires_grad");
  PyObject* layout = name("layout");
  PyObject* interface = name("__cuda_array_interface__");
  PyObject* dlpack = name("__dlpack__");
  PyObject* dlpack_device = name("__dlpack_device__");
  PyObject* stream = name("stream");
};

const Names& names() {
  static const auto* const all = new Names;  // outlives the interpreter
  return *all;
}

bool is_type_of(PyTypeObject* type, const char* module, const char* path) {
  return module_attribute(module, path).get() == reinterpret_cast<PyObject*>(type);
}

std::optional<Library> library_of_type(PyTypeObject* type) {
  if (type == &PyArray_Type) return Library::numpy;
  if (PyType_IsSubtype(type, &PyArray_Type) || PyType_IsSubtype(type, &PyGenericArrType_Type)) return {};
  if (is_type_of(type, "cupy", "ndarray")) return Library::cupy;
  if (is_type_of(type, "torch", "Tensor") || is_type_of(type, "torch", "nn.Parameter")) return Library::torch;
  // Of libraries whose subclasses may mean something else by the operators.
  for (const char* module : {"cupy", "torch"}) {
    const Ref base = module_attribute(module, module[0] == 'c' ? "ndarray" : "Tensor");
    if (base && PyType_Check(base.get()) && PyType_IsSubtype(type, reinterpret_cast<PyTypeObject*>(base.get())))
      return {};
  }
  if (_PyType_Lookup(type, names().interface)) return Library::interface;
  if (_PyType_Lookup(type, names().dlpack) && _PyType_Lookup(type, names().dlpack_device)) return Library::dlpack;
  return {};
}

/// What was found out about types of arrays, which are kept alive for it.
struct KnownType {
  Ref type;
  Library library;
  const ExchangeApi* exchange;  // null: the type has none
};

const KnownType* known_type(PyTypeObject* type) {
  static auto* const known = new std::vector<KnownType>;  // outlives the interpreter
  for (const KnownType& row : *known) {
    if (row.type.get() == reinterpret_cast<PyObject*>(type)) return &row;
  }
  const std::optional<Library> library = library_of_type(type);
  if (!library) return nullptr;
  if (known->capacity() == 0) known->reserve(256);  // rows are pointed to
  if (known->size() == known->capacity()) return nullptr;
  known->push_back({Ref::borrow(reinterpret_cast<PyObject*>(type)), *library, exchange_api(type)});
  return &known->back();
}

bool as_int(const Ref& number, int64_t* out) {
  if (!number) return false;
  *out = PyLong_AsLongLong(number.get());
  return !(*out == -1 && PyErr_Occurred());
}

bool as_pointer(const Ref& number, char** out) {
  if (!number) return false;
  *out = static_cast<char*>(PyLong_AsVoidPtr(number.get()));
  return !(*out == nullptr && PyErr_Occurred());
}

Ref get(PyObject* object, PyObject* attribute) { return Ref::steal(PyObject_GetAttr(object, attribute)); }
Ref call(PyObject* object, PyObject* method) { return Ref::steal(PyObject_CallMethodNoArgs(object, method)); }

/// A tuple of `rank` numbers, each times `scale`.
bool read_numbers(PyObject* tuple, int rank, int64_t scale, int64_t* out) {
  if (!PyTuple_Check(tuple) || PyTuple_GET_SIZE(tuple) != rank) return false;
  for (int d = 0; d < rank; d++) {
    const int64_t n = PyLong_AsLongLong(PyTuple_GET_ITEM(tuple, d));
    if (n == -1 && PyErr_Occurred()) return false;
    out[d] = n * scale;
  }
  return true;
}

bool read_shape(PyObject* tuple, ForeignArray* out) {
  if (!PyTuple_Check(tuple) || PyTuple_GET_SIZE(tuple) > ForeignArray::max_rank) return false;
  out->rank = static_cast<int>(PyTuple_GET_SIZE(tuple));
  return read_numbers(tuple, out->rank, 1, out->shape.data());
}

void set_c_strides(ForeignArray* out) {
  int64_t stride = out->item_size();
  for (int d = out->rank; d-- > 0;) {
    const auto k = static_cast<size_t>(d);
    out->strides[k] = stride;
    stride *= std::max<int64_t>(out->shape[k], 1);
  }
}

bool set_numpy_dtype(PyArray_Descr* descr, ForeignArray* out) {
  const std::optional<DType> part = complex_part_of(descr->type_num);
  const std::optional<DType> dtype = part ? part : dtype_of(descr->type_num);
  if (!dtype || !PyArray_ISNBO(descr->byteorder)) return false;
  out->dtype = *dtype;
  out->complex = part.has_value();
  return true;
}

/// An array that cannot be assigned to in Python is not written by us.
bool takes_items(PyTypeObject* type) { return type->tp_as_mapping && type->tp_as_mapping->mp_ass_subscript; }

const char* read_cupy(const CupyApi& cupy, PyObject* object, ForeignArray* out) {
  CupyArray array;
  if (cupy.read(object, &array) != 0 || !PyArray_DescrCheck(array.dtype)) return no_array;
  out->data = static_cast<char*>(array.data);
  out->device = array.device;
  if (!set_numpy_dtype(reinterpret_cast<PyArray_Descr*>(array.dtype), out)) return no_dtype;
  if (array.rank > ForeignArray::max_rank) return too_many_dimensions;
  out->rank = array.rank;
  std::copy_n(array.shape, array.rank, out->shape.begin());
  std::copy_n(array.strides, array.rank, out->strides.begin());
  return nullptr;
}

const char* read_cupy(PyObject* object, ForeignArray* out) {
  const CupyApi* const api = cupy_api();
  if (api && PyObject_TypeCheck(object, api->array_type)) return read_cupy(*api, object, out);
  const Names& n = names();
  const Ref memory = get(object, n.data);
  if (!memory || !as_pointer(get(memory.get(), n.ptr), &out->data)) return no_array;
  int64_t device = 0;
  Ref number = get(memory.get(), n.device_id);
  if (!number) {
    PyErr_Clear();
    const Ref owner = get(object, n.device);
    if (owner) number = get(owner.get(), n.id);
  }
  if (!as_int(number, &device)) return no_array;
  out->device = static_cast<int>(device);
  const Ref shape = get(object, n.shape), strides = get(object, n.strides), dtype = get(object, n.dtype);
  if (!shape || !strides || !dtype || !PyArray_DescrCheck(dtype.get())) return no_array;
  if (!set_numpy_dtype(reinterpret_cast<PyArray_Descr*>(dtype.get()), out)) return no_dtype;
  if (!read_shape(shape.get(), out)) return too_many_dimensions;
  if (!read_numbers(strides.get(), out->rank, 1, out->strides.data())) return no_array;
  return nullptr;
}

const char* read_interface(PyObject* object, ForeignArray* out) {
  const Ref dict = get(object, names().interface);
  if (!dict || !PyDict_Check(dict.get())) return no_array;
  const auto item = [&](const char* key) { return PyDict_GetItemString(dict.get(), key); };
  PyObject *data = item("data"), *shape = item("shape"), *strides = item("strides"), *type = item("typestr");
  if (PyObject* mask = item("mask"); mask && mask != Py_None) return "has a mask";
  if (!data || !PyTuple_Check(data) || PyTuple_GET_SIZE(data) != 2 || !shape || !type) return no_array;
  out->data = static_cast<char*>(PyLong_AsVoidPtr(PyTuple_GET_ITEM(data, 0)));
  if (!out->data && PyErr_Occurred()) return no_array;
  out->writeable = PyObject_IsTrue(PyTuple_GET_ITEM(data, 1)) == 0 && takes_items(Py_TYPE(object));
  PyArray_Descr* descr = nullptr;
  if (!PyArray_DescrConverter(type, &descr)) return no_dtype;
  const Ref owned = Ref::steal(reinterpret_cast<PyObject*>(descr));
  if (!set_numpy_dtype(descr, out)) return no_dtype;
  if (!read_shape(shape, out)) return too_many_dimensions;
  if (!strides || strides == Py_None) {
    set_c_strides(out);
  } else if (!read_numbers(strides, out->rank, 1, out->strides.data())) {
    return no_array;
  }
  if (PyObject* stream = item("stream"); stream && stream != Py_None) {
    out->stream = reinterpret_cast<uintptr_t>(PyLong_AsVoidPtr(stream));
    if (PyErr_Occurred()) return no_array;
  }
  // The interface does not say which device it is: the pointer's is looked up by who launches, 0 stands for it. A
  // `device` attribute with a number says it.
  out->device = 0;
  const Ref device = get(object, names().device);
  PyErr_Clear();
  const Ref id = device ? get(device.get(), names().id) : Ref();
  PyErr_Clear();
  int64_t number = 0;
  if (id && PyLong_Check(id.get()) && as_int(id, &number)) out->device = static_cast<int>(number);
  PyErr_Clear();
  return nullptr;
}

const char* read_tensor(const DLTensor& t, ForeignArray* out) {
  if (t.device.type == dl_cpu || t.device.type == dl_cuda_host) {
    out->device = host_memory;
  } else if (t.device.type == dl_cuda || t.device.type == dl_cuda_managed) {
    out->device = t.device.id;
  } else {
    return "is on a device that is no CUDA device";
  }
  if (!dtype_of_dlpack(t.dtype, &out->dtype, &out->complex)) return no_dtype;
  if (t.ndim < 0 || t.ndim > ForeignArray::max_rank) return too_many_dimensions;
  out->rank = t.ndim;
  out->data = static_cast<char*>(t.data) + t.byte_offset;
  std::copy_n(t.shape, out->rank, out->shape.begin());
  if (!t.strides) {
    set_c_strides(out);
    return nullptr;
  }
  for (size_t d = 0; d < static_cast<size_t>(out->rank); d++) out->strides[d] = t.strides[d] * out->item_size();
  return nullptr;
}

const char* read_dlpack(PyObject* object, ForeignArray* out) {
  const Ref where = call(object, names().dlpack_device);
  int64_t kind = 0;
  if (!where || !PyTuple_Check(where.get()) || PyTuple_GET_SIZE(where.get()) != 2 ||
      !as_int(Ref::borrow(PyTuple_GET_ITEM(where.get(), 0)), &kind)) {
    return no_array;
  }
  // The host's memory is NumPy's matter: `np.asarray` takes it without a copy.
  if (kind != dl_cuda && kind != dl_cuda_managed) return "is in memory of the host and no NumPy array";
  // The producer makes the default stream wait for its work.
  const Ref capsule = export_dlpack(object, 1);
  if (!capsule) return no_array;
  bool read_only = false;
  const DLTensor* tensor = tensor_of(capsule.get(), &read_only);
  if (!tensor) return no_array;
  out->writeable = !read_only && takes_items(Py_TYPE(object));
  out->owner = capsule;
  const char* why = read_tensor(*tensor, out);
  return !why && out->dtype == DType::bf16_ ? no_dtype : why;  // whose operations are known only of torch
}

/// Everything that DLPack's table does not tell: a tensor with a pending conjugation or negation is not what its memory
/// holds, and what is stored to one with gradients would be unknown to autograd.
const char* refused_tensor(PyObject* object, bool complex) {
  const Names& n = names();
  const Ref grad = get(object, n.requires_grad);
  if (!grad) return no_array;
  if (grad.get() != Py_False) return "requires gradients";
  const Ref negative = call(object, n.is_neg);
  if (!negative) return no_array;
  if (negative.get() != Py_False) return "is negated lazily";
  if (!complex) return nullptr;
  const Ref conjugate = call(object, n.is_conj);
  if (!conjugate) return no_array;
  return conjugate.get() != Py_False ? "is conjugated lazily" : nullptr;
}

const char* read_torch(const ExchangeApi* exchange, PyObject* object, ForeignArray* out) {
  const Names& n = names();
  if (exchange && exchange->view) {
    DLTensor tensor{};
    if (exchange->view(object, &tensor) == 0) {
      if (const char* why = read_tensor(tensor, out)) return why;
      return refused_tensor(object, out->complex);
    }
    PyErr_Clear();
  }
  const Ref layout = get(object, n.layout);
  static const auto* const strided = new Ref(module_attribute("torch", "strided"));
  if (!layout || layout.get() != strided->get()) return "is no dense tensor";
  const Ref dtype = get(object, n.dtype);
  const std::optional<DType> part = dtype ? torch_dtype_named(dtype.get()) : std::nullopt;
  const std::optional<DType> complex = dtype ? torch_complex_part_named(dtype.get()) : std::nullopt;
  if (!part && !complex) return no_dtype;
  out->dtype = part ? *part : *complex;
  out->complex = !part;
  if (const char* why = refused_tensor(object, out->complex)) return why;
  int64_t device = 0;
  if (!as_int(call(object, n.get_device), &device)) return no_array;
  out->device = static_cast<int>(device);  // -1 on the host
  const Ref cuda = get(object, n.is_cuda);
  if (!cuda || (device >= 0) != (cuda.get() == Py_True)) return "is on a device that is no CUDA device";
  const Ref shape = get(object, n.shape), strides = call(object, n.stride);
  if (!shape || !strides || !as_pointer(call(object, n.data_ptr), &out->data)) return no_array;
  if (!read_shape(shape.get(), out)) return too_many_dimensions;
  if (!read_numbers(strides.get(), out->rank, out->item_size(), out->strides.data())) return no_array;
  return nullptr;
}

}  // namespace

Ref module_attribute(const char* module, std::string_view path) {
  Ref found = Ref::borrow(PyDict_GetItemString(PyImport_GetModuleDict(), module));
  while (found && !path.empty()) {
    const std::string part(path.substr(0, path.find('.')));
    found = Ref::steal(PyObject_GetAttrString(found.get(), part.c_str()));
    path.remove_prefix(std::min(path.size(), part.size() + 1));
  }
  PyErr_Clear();
  return found;
}

bool ForeignArray::is_empty() const {
  for (size_t d = 0; d < static_cast<size_t>(rank); d++)
    if (shape[d] == 0) return true;
  return false;
}

bool ForeignArray::is_contiguous(bool fortran) const {
  if (is_empty()) return true;
  int64_t expected = item_size();
  for (int k = 0; k < rank; k++) {
    const auto d = static_cast<size_t>(fortran ? k : rank - 1 - k);
    if (shape[d] != 1 && strides[d] != expected) return false;
    expected *= shape[d];
  }
  return true;
}

bool ForeignArray::is_inner() const {
  if (rank == 0 || is_empty()) return true;
  const auto last = static_cast<size_t>(rank) - 1;
  return shape[last] <= 1 || strides[last] == item_size();
}

bool ForeignArray::is_aligned() const {
  const auto size = static_cast<int64_t>(ir::size_of(dtype));
  int64_t bits = reinterpret_cast<int64_t>(data);
  for (size_t d = 0; d < static_cast<size_t>(rank); d++)
    if (shape[d] > 1) bits |= strides[d];
  return bits % size == 0;
}

const char* name_of(Library library) {
  static constexpr const char* all[] = {"NumPy", "CuPy", "torch", "__cuda_array_interface__", "DLPack"};
  return all[static_cast<size_t>(library)];
}

std::string place_name(int device) {
  return device < 0 ? "in the host's memory" : "on device " + std::to_string(device);
}

std::optional<Library> library_of(PyObject* object) {
  PyTypeObject* type = Py_TYPE(object);
  if (type == &PyArray_Type) return Library::numpy;
  const bool plain = PyLong_CheckExact(object) || PyFloat_CheckExact(object) || PyBool_Check(object) ||
                     PyUnicode_CheckExact(object) || PyTuple_CheckExact(object) || PyList_CheckExact(object) ||
                     PyDict_CheckExact(object) || PyFunction_Check(object) || PyCFunction_CheckExact(object) ||
                     PyModule_CheckExact(object) || PyType_Check(object) || object == Py_None;
  if (plain) return {};
  const KnownType* known = known_type(type);
  return known ? std::optional(known->library) : std::nullopt;
}

const char* read_array(Library library, PyObject* object, ForeignArray* out) {
  const Ref held = Ref::borrow(object);  // Python code may run
  const char* why = no_array;
  switch (library) {
    case Library::numpy:
      break;
    case Library::cupy:
      why = read_cupy(object, out);
      break;
    case Library::torch: {
      const KnownType* known = known_type(Py_TYPE(object));
      why = read_torch(known ? known->exchange : nullptr, object, out);
      break;
    }
    case Library::interface:
      why = read_interface(object, out);
      break;
    case Library::dlpack:
      why = read_dlpack(object, out);
      break;
  }
  PyErr_Clear();
  return why;
}

int device_in(const Scope& scope) {
  // Types that are no arrays'. One that has died may stand for another of the same address, which nobody then looks at.
  static std::array<PyTypeObject*, 64> others{};
  if (scope.names) return host_memory;
  for (int k = 0; k < scope.code->co_nlocalsplus; ++k) {
    PyObject* object = scope.localsplus[k];
    if (object && PyCell_Check(object)) object = PyCell_GET(object);
    if (!object || PyArray_CheckExact(object)) continue;
    PyTypeObject* type = Py_TYPE(object);
    PyTypeObject*& other = others[reinterpret_cast<uintptr_t>(type) / sizeof(PyTypeObject) % others.size()];
    if (other == type) continue;
    const std::optional<Library> library = library_of(object);
    ForeignArray array;
    if (!library) {
      other = type;
    } else if (*library != Library::numpy && !read_array(*library, object, &array)) {
      return array.device;
    }
  }
  return host_memory;
}

int extents_of(PyObject* object, int64_t extents[ForeignArray::max_rank]) {
  if (PyArray_Check(object)) {
    auto* array = reinterpret_cast<PyArrayObject*>(object);
    if (PyArray_NDIM(array) > ForeignArray::max_rank) return -1;
    std::copy_n(PyArray_DIMS(array), PyArray_NDIM(array), extents);
    return PyArray_NDIM(array);
  }
  const std::optional<Library> library = library_of(object);
  ForeignArray a;
  if (!library || read_array(*library, object, &a)) return -1;
  std::copy_n(a.shape.begin(), a.rank, extents);
  return a.rank;
}

}  // namespace appy::runtime
