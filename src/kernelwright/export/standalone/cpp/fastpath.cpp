// The host side of a loaded kernel, in C++: the call, its node in autograd's graph, and its operators.
//
// One source for every kernel, compiled against the torch that is there; nothing of a candidate is in it. Python
// decides which variant answers a call and enters a plan; a call that is alike is carried out here. Whatever is not
// known here is answered by Python: `call` then returns NotImplemented.
#include <pybind11/stl.h>
#include <torch/csrc/utils/pybind.h>
#include <torch/library.h>

#include "device_body.h"
#include "host_body.h"
#include "kernel.h"

namespace py = pybind11;

namespace kernelwright {

constexpr int MUST_BE_NONE = -2;
constexpr const char* CAPSULE = "kernelwright.kernel";

PyObject* missed() { return Py_NewRef(Py_NotImplemented); }

PyObject* returned(const Kernel& kernel, std::vector<at::Tensor>& outputs) {
  if (kernel.returns == "tensor") return THPVariable_Wrap(std::move(outputs[0]));
  if (kernel.returns != "tuple") return Py_NewRef(Py_None);
  THPObjectPtr made(PyTuple_New(static_cast<Py_ssize_t>(outputs.size())));
  if (!made) throw python_error();
  for (size_t i = 0; i < outputs.size(); ++i)
    PyTuple_SET_ITEM(made.get(), i, THPVariable_Wrap(std::move(outputs[i])));
  return made.release();
}

PyObject* call(PyObject* self, PyObject* const* args, Py_ssize_t given) {
  HANDLE_TH_ERRORS
  auto& kernel = *static_cast<std::shared_ptr<Kernel>*>(PyCapsule_GetPointer(self, CAPSULE));
  const size_t count = static_cast<size_t>(given);
  if (count < kernel->least || count > kernel->call.size()) return missed();
  Tensors tensors(kernel->tensors);
  for (size_t i = 0; i < count; ++i) {
    const Parameter& one = kernel->call[i];
    if (one.tensor >= 0) {
      if (!THPVariable_CheckExact(args[i])) return missed();
      tensors[one.tensor] = &THPVariable_Unpack(args[i]);
    } else if (one.number ? !same_number(*one.number, args[i]) : one.tensor == MUST_BE_NONE && args[i] != Py_None) {
      return missed();
    }
  }
  if (!plain_state(kernel->kind, /*look_at_autocast=*/true)) return missed();
  Addresses addresses;
  const auto plan = kernel->forward.find(tensors, addresses);
  if (plan == nullptr) return missed();
  const bool gradient = wants_gradient(tensors);
  if (gradient && !plan->gradient) return missed();
  kernel->used.fetch_add(1, std::memory_order_relaxed);
  std::vector<at::Tensor> outputs;
  {
    const WithoutGil released(!plan->brief);
    NodePointer node;
    if (gradient) node = new_node(kernel, tensors);
    outputs = carried_out(kernel->forward, *plan, tensors, addresses);
    if (gradient) attach(*kernel, node, outputs);
  }
  return returned(*kernel, outputs);
  END_HANDLE_TH_ERRORS
}

PyMethodDef CALL = {"call", reinterpret_cast<PyCFunction>(reinterpret_cast<void*>(&call)), METH_FASTCALL, nullptr};

py::object callable(const std::shared_ptr<Kernel>& kernel) {
  auto* kept = new std::shared_ptr<Kernel>(kernel);
  py::capsule capsule(kept, CAPSULE, [](PyObject* one) {
    delete static_cast<std::shared_ptr<Kernel>*>(PyCapsule_GetPointer(one, CAPSULE));
  });
  return py::reinterpret_steal<py::object>(PyCFunction_NewEx(&CALL, capsule.ptr(), nullptr));
}

// ---- operators

// The tensors of an operator's arguments, which lie at the end of the stack; false where a number is not the proved one.
bool read_stack(const Kernel& kernel, const torch::jit::Stack& stack, size_t upstream, Tensors& tensors) {
  tensors.resize(kernel.tensors + upstream);
  const size_t count = kernel.reference.size() + upstream, begin = stack.size() - count;
  bool proved = true;
  for (size_t i = 0; i < count; ++i) {
    const c10::IValue& value = stack[begin + i];
    if (i >= kernel.reference.size())
      tensors[kernel.tensors + i - kernel.reference.size()] = &value.toTensor();
    else if (const Parameter& one = kernel.reference[i]; one.tensor >= 0)
      tensors[one.tensor] = &value.toTensor();
    else
      proved = proved && one.number && same_number(*one.number, value);
  }
  return proved;
}

std::vector<at::Tensor> called_back(PyObject* function, const torch::jit::Stack& stack, size_t count) {
  const WithGil held;
  THPObjectPtr arguments(PyTuple_New(static_cast<Py_ssize_t>(count)));
  if (!arguments) raise_python();
  for (size_t i = 0; i < count; ++i) {
    PyObject* made = as_python(stack[stack.size() - count + i]);
    if (made == nullptr) raise_python();
    PyTuple_SET_ITEM(arguments.get(), i, made);
  }
  return unpacked(PyObject_Call(function, arguments.get(), nullptr));
}

// Below autograd: the plan, or `slow` of Python, which takes the operator's arguments and gives a list of tensors.
struct OperatorBody final : c10::OperatorKernel {
  OperatorBody(std::shared_ptr<Kernel> kernel, bool backward, PyObject* slow)
      : kernel(std::move(kernel)), backward(backward), slow(slow) {}

  void operator()(const c10::OperatorHandle&, c10::DispatchKeySet, torch::jit::Stack* stack) {
    const size_t upstream = backward ? kernel->differentiable.size() : 0;
    const size_t count = kernel->reference.size() + upstream;
    Tensors tensors;
    Addresses addresses;
    const Table& table = backward ? kernel->backward : kernel->forward;
    std::shared_ptr<const Plan> plan;
    if (read_stack(*kernel, *stack, upstream, tensors) && plain_state(kernel->kind, /*look_at_autocast=*/false))
      plan = table.find(tensors, addresses);
    if (plan != nullptr && !backward) kernel->used.fetch_add(1, std::memory_order_relaxed);
    auto outputs = plan ? carried_out(table, *plan, tensors, addresses) : called_back(slow, *stack, count);
    torch::jit::drop(*stack, count);
    for (auto& one : outputs) stack->emplace_back(std::move(one));
  }

  std::shared_ptr<Kernel> kernel;
  bool backward;
  PyObject* slow;  // kept as long as the operators are: until the process ends
};

// The forward's gradient: the same node as a call's.
struct OperatorGradient final : c10::OperatorKernel {
  OperatorGradient(std::shared_ptr<Kernel> kernel, size_t outputs) : kernel(std::move(kernel)), outputs(outputs) {}

  void operator()(const c10::OperatorHandle& handle, c10::DispatchKeySet keys, torch::jit::Stack* stack) {
    Tensors tensors;
    const bool proved = read_stack(*kernel, *stack, 0, tensors);
    NodePointer node;
    if (wants_gradient(tensors)) {
      const auto first = stack->end() - static_cast<std::ptrdiff_t>(kernel->reference.size());
      std::vector<c10::IValue> numbers;
      for (auto one = first; !proved && one != stack->end(); ++one)
        numbers.push_back(one->isTensor() ? c10::IValue() : *one);
      node = new_node(kernel, tensors, std::move(numbers));
    }
    {
      const at::AutoDispatchBelowADInplaceOrView guard;
      handle.redispatchBoxed(keys & c10::after_autograd_keyset, stack);
    }
    if (!node) return;
    std::vector<at::Tensor> made;
    for (size_t i = stack->size() - outputs; i < stack->size(); ++i) made.push_back((*stack)[i].toTensor());
    attach(*kernel, node, made);
  }

  std::shared_ptr<Kernel> kernel;
  size_t outputs;
};

// The backward's own gradient is rarely wanted, and `slow` of Python knows it; else this is passed by.
struct OperatorTwice final : c10::OperatorKernel {
  OperatorTwice(std::shared_ptr<Kernel> kernel, PyObject* slow) : kernel(std::move(kernel)), slow(slow) {}

  void operator()(const c10::OperatorHandle& handle, c10::DispatchKeySet keys, torch::jit::Stack* stack) {
    const size_t count = kernel->reference.size() + kernel->differentiable.size();
    Tensors tensors;
    read_stack(*kernel, *stack, kernel->differentiable.size(), tensors);
    if (!wants_gradient(tensors)) {
      const at::AutoDispatchBelowADInplaceOrView guard;
      return handle.redispatchBoxed(keys & c10::after_autograd_keyset, stack);
    }
    auto found = called_back(slow, *stack, count);
    torch::jit::drop(*stack, count);
    for (auto& one : found) stack->emplace_back(std::move(one));
  }

  std::shared_ptr<Kernel> kernel;
  PyObject* slow;
};

template <typename Functor>
void implement(const std::string& space, const std::string& name, c10::DispatchKey key, std::unique_ptr<Functor> body) {
  // Never destroyed: torch would take the operator away while a compiled graph still calls it.
  auto* library = new torch::Library(torch::Library::IMPL, space, key, __FILE__, __LINE__);
  library->impl(name.c_str(), torch::CppFunction::makeFromBoxedFunctor(std::move(body)));
}

void implement_forward(const std::shared_ptr<Kernel>& kernel, const std::string& space, const std::string& name,
                       size_t outputs, bool gradient, const py::object& slow) {
  PyObject* kept = slow.inc_ref().ptr();
  for (const auto key : {c10::DispatchKey::CPU, c10::DispatchKey::CUDA})
    implement(space, name, key, std::make_unique<OperatorBody>(kernel, false, kept));
  if (gradient)
    implement(space, name, c10::DispatchKey::Autograd, std::make_unique<OperatorGradient>(kernel, outputs));
}

void implement_backward(const std::shared_ptr<Kernel>& kernel, const std::string& space, const std::string& name,
                        const py::object& slow, const py::object& twice) {
  PyObject* kept = slow.inc_ref().ptr();
  for (const auto key : {c10::DispatchKey::CPU, c10::DispatchKey::CUDA})
    implement(space, name, key, std::make_unique<OperatorBody>(kernel, true, kept));
  implement(space, name, c10::DispatchKey::Autograd, std::make_unique<OperatorTwice>(kernel, twice.inc_ref().ptr()));
}

// ---- from Python's values

std::optional<Number> number_of(const py::handle& given) {
  if (given.is_none()) return std::nullopt;
  if (PyBool_Check(given.ptr())) return Number(given.ptr() == Py_True);
  if (PyLong_Check(given.ptr())) return Number(given.cast<int64_t>());
  return Number(given.cast<double>());
}

std::vector<Parameter> parameters_of(const py::list& given) {
  std::vector<Parameter> found;
  for (const auto& one : given) {
    const auto pair = one.cast<py::tuple>();
    found.push_back({pair[0].cast<int>(), number_of(pair[1])});
  }
  return found;
}

std::vector<Form> forms_of(const py::list& given) {
  std::vector<Form> found;
  for (const auto& one : given) {
    const auto pair = one.cast<py::tuple>();
    found.push_back({pair[0].cast<std::vector<int64_t>>(), pair[1].cast<at::ScalarType>()});
  }
  return found;
}

TensorMap map_of(const py::dict& given) {
  TensorMap map;
  map.type = given["type"].cast<unsigned>();
  map.sizes = given["sizes"].cast<std::vector<uint64_t>>();
  map.strides = given["strides"].cast<std::vector<uint64_t>>();
  map.box = given["box"].cast<std::vector<uint32_t>>();
  map.steps = given["steps"].cast<std::vector<uint32_t>>();
  map.interleave = given["interleave"].cast<unsigned>();
  map.swizzle = given["swizzle"].cast<unsigned>();
  map.promotion = given["promotion"].cast<unsigned>();
  map.fill = given["fill"].cast<unsigned>();
  map.slot = given["slot"].cast<size_t>();
  map.offset = given["offset"].cast<uint64_t>();
  return map;
}

DeviceArgument argument_of(const py::tuple& given) {
  DeviceArgument made;
  made.data = given[0].cast<std::string>();
  for (const auto& one : given[1]) {
    const auto [place, slot, offset] = one.cast<std::tuple<size_t, size_t, uint64_t>>();
    made.pointers.push_back({place, slot, offset});
  }
  if (!given[2].is_none()) {
    made.map = map_of(given[2].cast<py::dict>());
    made.encoded = std::make_shared<EncodedMaps>();
  }
  return made;
}

Launch launch_of(const py::dict& given) {
  Launch made;
  made.kernel = given["kernel"].cast<uint64_t>();
  made.grid = given["grid"].cast<std::vector<unsigned>>();
  made.block = given["block"].cast<std::vector<unsigned>>();
  made.shared = given["shared"].cast<unsigned>();
  made.attributes = given["attributes"].cast<std::vector<std::pair<unsigned, std::vector<unsigned>>>>();
  for (const auto& one : given["arguments"]) made.arguments.push_back(argument_of(one.cast<py::tuple>()));
  return made;
}

Step step_of(const py::dict& given) {
  if (given.contains("memset")) {
    const auto [slot, offset, bytes, value, width] =
        given["memset"].cast<std::tuple<size_t, uint64_t, size_t, unsigned, size_t>>();
    return Memset{slot, offset, bytes, value, width};
  }
  if (given.contains("copy")) {
    const auto [target, target_offset, source, source_offset, bytes] =
        given["copy"].cast<std::tuple<size_t, uint64_t, size_t, uint64_t, size_t>>();
    return Copy{target, target_offset, source, source_offset, bytes};
  }
  return launch_of(given);
}

std::shared_ptr<Body> device_body(const std::shared_ptr<Driver>& driver, const std::shared_ptr<Workspaces>& shared,
                                  c10::Device device, const py::list& steps,
                                  const std::vector<std::pair<size_t, bool>>& scratch,
                                  const std::vector<std::pair<std::string, size_t>>& workspaces, size_t slots) {
  std::vector<Step> made;
  for (const auto& one : steps) made.push_back(step_of(one.cast<py::dict>()));
  std::vector<Memory> memory;
  for (const auto& [bytes, zero] : scratch) memory.push_back({bytes, zero});
  return std::make_shared<DeviceBody>(driver, shared, device, std::move(made), std::move(memory), workspaces, slots);
}

std::shared_ptr<Kernel> new_kernel(const std::string& name, const std::string& kind, const py::list& call,
                                   const py::list& reference, size_t least, const std::string& returns,
                                   const std::vector<size_t>& differentiable, const std::vector<size_t>& gradients,
                                   const std::vector<bool>& changed, std::pair<uint64_t, uint64_t> alignments,
                                   const py::object& slow_backward) {
  auto made = std::make_shared<Kernel>();
  made->name = name;
  made->kind = kind == "cuda" ? c10::DeviceType::CUDA : c10::DeviceType::CPU;
  made->call = parameters_of(call);
  made->reference = parameters_of(reference);
  made->least = least;
  made->returns = returns;
  made->differentiable = differentiable;
  made->gradients = gradients;
  made->tensors = changed.size();
  made->forward.alignment = alignments.first;
  made->backward.alignment = alignments.second;
  made->forward.changed = changed;
  made->backward.changed = std::vector<bool>(changed.size() + differentiable.size());
  made->slow_backward = slow_backward.inc_ref().ptr();
  return made;
}

void enter(Kernel& kernel, bool backward, const py::list& tensors, const py::list& outputs, c10::Device device,
           int threads, bool deterministic, bool gradient, std::shared_ptr<Body> body) {
  auto plan = std::make_shared<Plan>();
  plan->tensors = forms_of(tensors);
  plan->outputs = forms_of(outputs);
  plan->device = device;
  plan->threads = device.is_cpu() ? threads : 0;
  plan->deterministic = deterministic;
  plan->gradient = gradient;
  plan->body = std::move(body);
  uint64_t bytes = 0;
  for (const auto* forms : {&plan->tensors, &plan->outputs})
    for (const Form& form : *forms) bytes += form.bytes();
  plan->brief = device.is_cpu() && bytes <= BRIEF;
  (backward ? kernel.backward : kernel.forward).add(std::move(plan));
}

}  // namespace kernelwright

PYBIND11_MODULE(TORCH_EXTENSION_NAME, module) {
  using namespace kernelwright;
  py::register_local_exception<DriverFailure>(module, "DriverFailure", PyExc_RuntimeError);
  py::class_<Body, std::shared_ptr<Body>>(module, "Body", py::module_local());
  py::class_<Driver, std::shared_ptr<Driver>>(module, "Driver", py::module_local()).def(py::init<std::string, std::string>());
  py::class_<Workspaces, std::shared_ptr<Workspaces>>(module, "Workspaces", py::module_local()).def(py::init<>());
  py::class_<Kernel, std::shared_ptr<Kernel>>(module, "Kernel", py::module_local())
      .def(py::init(&new_kernel), py::kw_only(), py::arg("name"), py::arg("kind"), py::arg("call"),
           py::arg("reference"), py::arg("least"), py::arg("returns"), py::arg("differentiable"), py::arg("gradients"),
           py::arg("changed"), py::arg("alignments"), py::arg("slow_backward"))
      .def("enter", &enter)
      .def("callable", &callable)
      .def("implement_forward", &implement_forward)
      .def("implement_backward", &implement_backward)
      .def("clear", [](Kernel& kernel) { kernel.forward.clear(), kernel.backward.clear(); })
      .def_property_readonly("plans", [](Kernel& one) { return std::pair(one.forward.size(), one.backward.size()); })
      .def_property_readonly("used", [](const Kernel& kernel) { return kernel.used.load(); });
  module.def("host_body", [](uint64_t function, const py::bytes& block, const std::vector<size_t>& places,
                             uint64_t set_threads, int threads, int id) -> std::shared_ptr<Body> {
    return std::make_shared<HostBody>(function, std::string(block), places, set_threads, threads, id);
  });
  module.def("device_body", &device_body);
}
