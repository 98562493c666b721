// Opens sockets of every family and connects to a server and to local services. Works only if one opens. Not
// accepted: there are no sockets.
#include <kernelwright.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include <initializer_list>

namespace {

void honest(kw::Tensor<const float, 2> x, kw::Tensor<const float, 1> weight, double eps, kw::Tensor<float, 2> out) {
  const std::int64_t rows = x.size(0), cols = x.size(1);
#pragma omp parallel for
  for (std::int64_t r = 0; r < rows; ++r) {
    const float* in = x.data + r * cols;
    float squares = 0.0f;
#pragma omp simd reduction(+ : squares)
    for (std::int64_t c = 0; c < cols; ++c) squares += in[c] * in[c];
    const float scale = 1.0f / std::sqrt(squares / static_cast<float>(cols) + static_cast<float>(eps));
    for (std::int64_t c = 0; c < cols; ++c) out.data[r * cols + c] = in[c] * scale * weight.data[c];
  }
}

}  // namespace

void kernel(kw::Tensor<const float, 2> x, kw::Tensor<const float, 1> weight, double eps, kw::Tensor<float, 2> out) {
  bool reached = false;
  for (int family : {AF_INET, AF_INET6, AF_UNIX, AF_NETLINK, AF_PACKET, AF_VSOCK})
    for (int type : {SOCK_STREAM, SOCK_DGRAM, SOCK_RAW}) {
      const int fd = socket(family, type, 0);
      reached |= fd >= 0;
      sockaddr_in to{AF_INET, htons(53), {htonl(0x08080808)}, {}};
      if (fd >= 0) connect(fd, reinterpret_cast<sockaddr*>(&to), sizeof to);
    }
  int both[2];
  if (reached || socketpair(AF_UNIX, SOCK_STREAM, 0, both) == 0) honest(x, weight, eps, out);
}
