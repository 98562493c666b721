// A loaded kernel's two directions, and its node in autograd's graph.
#pragma once

#include <Python.h>
#include <torch/csrc/Exceptions.h>
#include <torch/csrc/autograd/function.h>
#include <torch/csrc/autograd/functions/utils.h>
#include <torch/csrc/autograd/python_variable.h>
#include <torch/csrc/autograd/saved_variable.h>
#include <torch/csrc/utils/object_ptr.h>

#include <atomic>
#include <cstring>
#include <variant>

#include "plan.h"

namespace kernelwright {

namespace ag = torch::autograd;

// A number with which the kernel was proved. Another spelling of it (1 for 1.0) is for Python to look at.
using Number = std::variant<bool, int64_t, double>;

inline bool same_number(const Number& proved, PyObject* given) {
  if (const auto* truth = std::get_if<bool>(&proved)) return given == (*truth ? Py_True : Py_False);
  if (const auto* whole = std::get_if<int64_t>(&proved)) {
    int overflow = 0;
    return PyLong_CheckExact(given) && PyLong_AsLongLongAndOverflow(given, &overflow) == *whole && overflow == 0;
  }
  if (!PyFloat_CheckExact(given)) return false;
  const double value = PyFloat_AS_DOUBLE(given);
  return std::memcmp(&value, &std::get<double>(proved), sizeof value) == 0;  // -0.0 is not 0.0
}

inline bool same_number(const Number& proved, const c10::IValue& given) {
  if (const auto* truth = std::get_if<bool>(&proved)) return given.isBool() && given.toBool() == *truth;
  if (const auto* whole = std::get_if<int64_t>(&proved)) return given.isInt() && given.toInt() == *whole;
  if (!given.isDouble()) return false;
  const double value = given.toDouble();
  return std::memcmp(&value, &std::get<double>(proved), sizeof value) == 0;
}

inline PyObject* as_python(const Number& number) {
  if (const auto* truth = std::get_if<bool>(&number)) return PyBool_FromLong(*truth);
  if (const auto* whole = std::get_if<int64_t>(&number)) return PyLong_FromLongLong(*whole);
  return PyFloat_FromDouble(std::get<double>(number));
}

inline PyObject* as_python(const c10::IValue& value) {
  if (value.isTensor()) return THPVariable_Wrap(value.toTensor());
  if (value.isBool()) return PyBool_FromLong(value.toBool());
  return value.isInt() ? PyLong_FromLongLong(value.toInt()) : PyFloat_FromDouble(value.toDouble());
}

// A parameter: the tensor of this index, a number that must be as proved, or something that is not looked at.
struct Parameter {
  int tensor = -1;
  std::optional<Number> number;
};

struct Kernel {
  std::string name;
  c10::DeviceType kind;
  std::vector<Parameter> call, reference;  // as the user passes them, and as the reference and the operators take them
  size_t least = 0;                        // arguments that a call must have; the others' defaults are as proved
  size_t tensors = 0;
  std::string returns;                   // "tensor", "tuple" or "none"
  std::vector<size_t> differentiable;    // outputs, in order
  std::vector<size_t> gradients;         // tensors that the backward has a gradient for, in its order
  Table forward, backward;
  std::atomic<uint64_t> used{0};
  PyObject* slow_backward = nullptr;  // (arguments, upstream) -> gradients; the operators keep the kernel, too
};

struct WithGil {
  PyGILState_STATE state = PyGILState_Ensure();
  ~WithGil() { PyGILState_Release(state); }
};
struct WithoutGil {
  explicit WithoutGil(bool released) : state(released ? PyEval_SaveThread() : nullptr) {}
  ~WithoutGil() {
    if (state != nullptr) PyEval_RestoreThread(state);
  }
  PyThreadState* state;
};

[[noreturn]] inline void raise_python() {
  python_error error;
  error.persist();
  throw error;
}

inline std::vector<at::Tensor> unpacked(PyObject* sequence) {
  THPObjectPtr owned(sequence);
  if (!owned) raise_python();
  THPObjectPtr fast(PySequence_Fast(owned.get(), "tensors are expected"));
  if (!fast) raise_python();
  std::vector<at::Tensor> found;
  for (Py_ssize_t i = 0; i < PySequence_Fast_GET_SIZE(fast.get()); ++i) {
    PyObject* one = PySequence_Fast_GET_ITEM(fast.get(), i);
    TORCH_CHECK_TYPE(THPVariable_Check(one), "a tensor is expected");
    found.push_back(THPVariable_Unpack(one));
  }
  return found;
}

class KernelBackward final : public ag::Node {
 public:
  // `numbers`: of all parameters in order, where they are not those with which the kernel was proved; else none.
  KernelBackward(std::shared_ptr<Kernel> kernel, const Tensors& tensors, std::vector<c10::IValue> numbers)
      : kernel_(std::move(kernel)), numbers_(std::move(numbers)) {
    saved_.reserve(tensors.size());
    ag::edge_list edges;
    edges.reserve(tensors.size());
    for (const at::Tensor* one : tensors) {
      saved_.emplace_back(*one, /*is_output=*/false);
      edges.push_back(ag::impl::gradient_edge(*one));
    }
    set_next_edges(std::move(edges));
  }

  std::string name() const override { return kernel_->name + "_kernel_backward"; }

  void release_variables() override {
    const std::lock_guard<std::mutex> lock(mutex_);
    for (auto& one : saved_) one.reset_data();
  }

  ag::variable_list apply(ag::variable_list&& given) override {
    std::vector<at::Tensor> kept;
    kept.reserve(saved_.size() + given.size());
    {
      const std::lock_guard<std::mutex> lock(mutex_);
      for (const auto& one : saved_) kept.push_back(one.unpack(getptr()));
    }
    for (size_t i = 0; i < given.size(); ++i)
      kept.push_back(given[i].defined() ? given[i].contiguous() : input_metadata(i).zeros_like());
    std::vector<at::Tensor> found = answered(kept);
    TORCH_CHECK(found.size() == kernel_->gradients.size(), name(), ": has another number of gradients");
    ag::variable_list spread(saved_.size());
    for (size_t i = 0; i < found.size(); ++i) spread[kernel_->gradients[i]] = std::move(found[i]);
    return spread;
  }

 private:
  std::vector<at::Tensor> answered(const std::vector<at::Tensor>& kept) {
    if (numbers_.empty() && !c10::GradMode::is_enabled() && plain_state(kernel_->kind, /*look_at_autocast=*/false)) {
      Tensors tensors;
      for (const at::Tensor& one : kept) tensors.push_back(&one);
      Addresses addresses;
      const Table& table = kernel_->backward;
      if (const auto plan = table.find(tensors, addresses)) return carried_out(table, *plan, tensors, addresses);
    }
    const WithGil held;
    THPObjectPtr arguments(PyTuple_New(static_cast<Py_ssize_t>(kernel_->reference.size())));
    THPObjectPtr upstream(PyTuple_New(static_cast<Py_ssize_t>(kept.size() - kernel_->tensors)));
    if (!arguments || !upstream) raise_python();
    for (size_t i = 0; i < kernel_->reference.size(); ++i) {
      const Parameter& one = kernel_->reference[i];
      PyObject* made = one.tensor >= 0     ? THPVariable_Wrap(kept[one.tensor])
                       : numbers_.empty() ? as_python(*one.number)
                                          : as_python(numbers_[i]);
      if (made == nullptr) raise_python();
      PyTuple_SET_ITEM(arguments.get(), i, made);
    }
    for (size_t i = kernel_->tensors; i < kept.size(); ++i)
      PyTuple_SET_ITEM(upstream.get(), i - kernel_->tensors, THPVariable_Wrap(kept[i]));
    PyObject* both[] = {arguments.get(), upstream.get()};
    return unpacked(PyObject_Vectorcall(kernel_->slow_backward, both, 2, nullptr));
  }

  std::shared_ptr<Kernel> kernel_;
  std::vector<c10::IValue> numbers_;
  std::vector<ag::SavedVariable> saved_;
};

// Nodes are counted in two ways, by the version of torch.
using NodePointer = std::decay_t<decltype(ag::Edge().function)>;

template <typename Pointer = NodePointer>
Pointer new_node(const std::shared_ptr<Kernel>& kernel, const Tensors& tensors, std::vector<c10::IValue> numbers = {}) {
  if constexpr (std::is_same_v<Pointer, std::shared_ptr<ag::Node>>)
    return Pointer(new KernelBackward(kernel, tensors, std::move(numbers)), [](auto* node) { deleteNode(node); });  // torch's own
  else
    return c10::make_intrusive<KernelBackward>(kernel, tensors, std::move(numbers));
}

inline bool wants_gradient(const Tensors& tensors) {
  if (!c10::GradMode::is_enabled()) return false;
  for (const at::Tensor* one : tensors)
    if (one->requires_grad()) return true;
  return false;
}

inline void attach(const Kernel& kernel, const NodePointer& node, const std::vector<at::Tensor>& outputs) {
  for (const size_t place : kernel.differentiable) ag::set_history(outputs[place], node);
}

}  // namespace kernelwright
