// Reading arrays of other libraries, and what a launch on a device is told.
#include <functional>

#include "ir/builder.h"
#include "runtime/device_arrays.h"
#include "runtime/specialization.h"
#include "runtime_python.h"

namespace appy::runtime {
namespace {

using namespace testing;
using ir::DType;

constexpr const char* libraries = R"(
import sys, types

class Interface:
    def __init__(self, array, stream=None, device=None, **more):
        self.array, self.stream, self.more = array, stream, more
        if device is not None:
            self.device = types.SimpleNamespace(id=device)
    @property
    def __cuda_array_interface__(self):
        own = self.array.__array_interface__
        return dict(shape=own["shape"], typestr=own["typestr"], data=own["data"], strides=own["strides"], version=3,
                    stream=self.stream, **self.more)
    def __getitem__(self, i): return self.array[i]
    def __setitem__(self, i, x): self.array[i] = x

class Immutable:
    def __init__(self, array): self.__cuda_array_interface__ = Interface(array).__cuda_array_interface__
    __cuda_array_interface__ = None
    def __getitem__(self, i): pass

cupy = types.ModuleType("cupy")
class ndarray:
    def __init__(self, array, device=0):
        self.array = array
        self.data = types.SimpleNamespace(ptr=array.__array_interface__["data"][0], device_id=device)
        self.shape, self.strides, self.dtype = array.shape, array.strides, array.dtype
class Subclass(ndarray): pass
cupy.ndarray = ndarray
cupy.cuda = types.SimpleNamespace(get_current_stream=lambda device: types.SimpleNamespace(ptr=100 + device))
sys.modules["cupy"] = cupy
)";

/// One Python for all tests: the types of the first are those that are known.
Frame& frame() {
  static auto* const one = new Frame(libraries, {});
  return *one;
}

ForeignArray read(const std::string& source, const char* expected = nullptr) {
  static auto* const kept = new std::vector<Ref>;
  kept->push_back(frame().eval(source));
  ForeignArray a;
  PyObject* object = kept->back().get();
  const std::optional<Library> library = library_of(object);
  EXPECT_TRUE(library) << source;
  if (!library) return a;
  const char* why = read_array(*library, object, &a);
  EXPECT_STREQ(why ? why : "", expected ? expected : "");
  EXPECT_EQ(PyErr_Occurred(), nullptr);
  return a;
}

TEST(device_arrays, cupy) {
  const ForeignArray a = read("ndarray(np.zeros((3, 4), 'f4')[:, ::-2], 2)");
  EXPECT_EQ(a.device, 2);
  EXPECT_EQ(a.rank, 2);
  EXPECT_EQ(a.dtype, DType::f32_);
  EXPECT_EQ(a.shape[1], 2);
  EXPECT_EQ(a.strides[0], 16);
  EXPECT_EQ(a.strides[1], -8);
  EXPECT_TRUE(a.is_aligned());
  EXPECT_FALSE(a.is_inner());
  EXPECT_TRUE(read("ndarray(np.zeros((3, 4), order='F'))").is_contiguous(true));
  EXPECT_TRUE(read("ndarray(np.zeros((3, 4), 'c16'))").complex);
  read("ndarray(np.zeros(3, 'S3'))", "has a dtype without compiled form");
  read("ndarray(np.zeros(3, '>f8'))", "has a dtype without compiled form");
  read("ndarray(np.zeros((1,) * 33))", "has more than 32 dimensions");
  EXPECT_FALSE(library_of(frame().eval("Subclass(np.zeros(3))").get()));
}

TEST(device_arrays, interface) {
  const ForeignArray a = read("Interface(np.zeros((3, 4), 'i2'), stream=9, device=1)");
  EXPECT_EQ(a.device, 1);
  EXPECT_EQ(a.stream, 9U);
  EXPECT_EQ(a.dtype, DType::i16_);
  EXPECT_TRUE(a.is_contiguous(false));
  EXPECT_TRUE(a.writeable);
  EXPECT_EQ(read("Interface(np.zeros((3, 4))[::2])").strides[0], 64);
  EXPECT_FALSE(read("Immutable(np.zeros(3))").writeable);
  read("Interface(np.zeros(3), mask=np.zeros(3))", "has a mask");
}

TEST(device_arrays, what_is_no_array) {
  for (const char* source : {"1.5", "np.float64(1)", "'x'", "np", "np.sin", "object()", "np.matrix([[1]])", "None"}) {
    EXPECT_FALSE(library_of(frame().eval(source).get())) << source;
  }
  EXPECT_EQ(library_of(frame().eval("np.zeros(3)").get()), Library::numpy);
}

TEST(device_arrays, extents) {
  int64_t extents[ForeignArray::max_rank];
  EXPECT_EQ(extents_of(frame().eval("ndarray(np.zeros((3, 4)))").get(), extents), 2);
  EXPECT_EQ(extents[1], 4);
  EXPECT_EQ(extents_of(frame().eval("np.matrix([[1, 2]])").get(), extents), 2);
  EXPECT_EQ(extents_of(frame().eval("[1]").get(), extents), -1);
}

class Seen final : public Kernel {
 public:
  explicit Seen(std::function<void(const Invocation&)> look) : look_(std::move(look)) {}
  Status run(Invocation& call) const override {
    look_(call);
    return Status::done;
  }

 private:
  std::function<void(const Invocation&)> look_;
};

/// Runs a kernel on the two arrays, which are of the library on device 3.
void launch(Library library, const std::string& x, const std::string& y, std::function<void(const Invocation&)> look) {
  Frame& python = frame();
  Frame local("", {"x", "y"});
  local.bind(0, python.eval(x).release());
  local.bind(1, python.eval(y).release());
  ir::Graph* graph = new ir::Graph;
  std::unique_ptr<ir::Graph> owned(graph);
  Signature s;
  s.library = library;
  s.device = 3;
  for (int k = 0; k < 2; k++) {
    ir::add_arg(*graph->body, {DType::f64_, 1, ir::Layout::c});
    Input in = array_input(k, DType::f64_, 1, k, k == 1, ir::Layout::c);
    in.library = library;
    in.device = 3;
    in.object = Ref::borrow(reinterpret_cast<PyObject*>(Py_TYPE(local.local(0))));
    s.inputs.push_back(std::move(in));
  }
  EXPECT_EQ(s.device_parameters(2), (std::vector<bool>{true, true}));
  ir::Builder(*graph).yield({});
  Specialization code(std::move(owned), std::move(s), std::make_unique<Seen>(std::move(look)), local.scope());
  Entry entry;
  ASSERT_TRUE(code.guards().match(local.scope(), entry)) << code.guards().mismatch(local.scope());
  PyObject* returned = nullptr;
  EXPECT_EQ(code.launch(local.scope(), entry, 1, &returned), Launch::done);
}

TEST(device_launch, the_current_stream_of_the_library) {
  launch(Library::cupy, "ndarray(np.zeros(3), 3)", "ndarray(np.zeros(3), 3)", [](const Invocation& call) {
    EXPECT_EQ(call.stream, 103U);
    EXPECT_TRUE(call.other_streams.empty());
    EXPECT_EQ(call.args[1], 3U);
  });
}

TEST(device_launch, streams_that_arrays_name) {
  launch(Library::interface, "Interface(np.zeros(3), 7, 3)", "Interface(np.zeros(3), 8, 3)",
         [](const Invocation& call) {
           EXPECT_EQ(call.stream, 0U);
           EXPECT_EQ(std::vector<uintptr_t>(call.other_streams.begin(), call.other_streams.end()),
                     (std::vector<uintptr_t>{7, 8}));
         });
}

}  // namespace
}  // namespace appy::runtime
