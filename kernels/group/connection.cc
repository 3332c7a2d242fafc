#include "connection.h"

#include <fcntl.h>
#include <netdb.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <climits>
#include <cstring>
#include <memory>
#include <stdexcept>
#include <thread>

namespace lm_head {
namespace {

// Layout of a message: length of what follows, type, rank, step, completed, both ends of ids, text; as the machine
// writes numbers, for all ranks run the same build.
constexpr size_t kHeaderBytes = sizeof(uint32_t) + 2 * sizeof(int32_t) + 4 * sizeof(int64_t);
// More than any message has: whoever sends it speaks another language.
constexpr uint32_t kMaxMessageBytes = 1 << 20;

template <class T>
void append(std::string& bytes, T value) {
  bytes.append(reinterpret_cast<const char*>(&value), sizeof(value));
}

template <class T>
T take(const char*& bytes) {
  T value;
  std::memcpy(&value, bytes, sizeof(value));
  bytes += sizeof(value);
  return value;
}

std::string encode(const Message& message) {
  std::string bytes;
  append(bytes, static_cast<uint32_t>(kHeaderBytes - sizeof(uint32_t) + message.text.size()));
  append(bytes, static_cast<int32_t>(message.type));
  append(bytes, message.rank);
  append(bytes, message.step);
  append(bytes, message.completed);
  append(bytes, message.ids.begin);
  append(bytes, message.ids.end);
  return bytes + message.text;
}

using Addresses = std::unique_ptr<addrinfo, decltype(&freeaddrinfo)>;

Addresses resolve(const std::string& host, int port, int flags = 0) {
  addrinfo hints{};
  hints.ai_family = AF_UNSPEC;
  hints.ai_socktype = SOCK_STREAM;
  hints.ai_flags = flags;
  addrinfo* found = nullptr;
  const int error = getaddrinfo(host.c_str(), std::to_string(port).c_str(), &hints, &found);
  if (error != 0) throw std::runtime_error("cannot find the host '" + host + "': " + gai_strerror(error));
  return Addresses(found, freeaddrinfo);
}

// Where rank 0 listens, the best first. A name may mean another address here than elsewhere (often 127.0.1.1), so only
// addresses that are written out, and localhost, are taken at their word.
std::vector<std::string> addressesToListenAt(const std::string& host) {
  const std::vector<std::string> any = {"::", "0.0.0.0"};
  if (host == "localhost") return {host};
  try {
    resolve(host, 0, AI_NUMERICHOST);
  } catch (const std::runtime_error&) {
    return any;
  }
  // Not one of this machine's, as behind address translation: any.
  return {host, any[0], any[1]};
}

Descriptor newSocket(const addrinfo& address) {
  return Descriptor(socket(address.ai_family, address.ai_socktype | SOCK_CLOEXEC, address.ai_protocol));
}

Milliseconds until(Clock::time_point deadline) {
  return std::max(Milliseconds(0), std::chrono::duration_cast<Milliseconds>(deadline - Clock::now()));
}

// Asking again and again for a port of this machine at which nobody listens, a socket can be given that very port as
// its own, and then TCP joins it to itself.
bool isJoinedToItself(const Descriptor& socket) {
  sockaddr_storage own{}, other{};
  socklen_t ownSize = sizeof(own), otherSize = sizeof(other);
  return getsockname(socket.get(), reinterpret_cast<sockaddr*>(&own), &ownSize) == 0 &&
         getpeername(socket.get(), reinterpret_cast<sockaddr*>(&other), &otherSize) == 0 && ownSize == otherSize &&
         std::memcmp(&own, &other, ownSize) == 0;
}

// One attempt at one address; errno says why it failed.
bool connectOnce(const Descriptor& socket, const addrinfo& address, Clock::time_point deadline) {
  fcntl(socket.get(), F_SETFL, fcntl(socket.get(), F_GETFL) | O_NONBLOCK);
  if (connect(socket.get(), address.ai_addr, address.ai_addrlen) != 0) {
    if (errno != EINPROGRESS) return false;
    // A host has several addresses, and one that drops what it gets must not use up the time of the others.
    constexpr Milliseconds kLongest(5000);
    pollfd writable{socket.get(), POLLOUT, 0};
    if (poll(&writable, 1, static_cast<int>(std::min(until(deadline), kLongest).count())) <= 0) {
      errno = ETIMEDOUT;
      return false;
    }
    int error = 0;
    socklen_t size = sizeof(error);
    getsockopt(socket.get(), SOL_SOCKET, SO_ERROR, &error, &size);
    errno = error;
    if (error != 0) return false;
  }
  errno = ECONNREFUSED;
  return !isJoinedToItself(socket);
}

}  // namespace

Descriptor::~Descriptor() { close(); }

Descriptor& Descriptor::operator=(Descriptor&& other) noexcept {
  std::swap(fd_, other.fd_);
  return *this;
}

void Descriptor::close() {
  if (fd_ >= 0) ::close(fd_);
  fd_ = -1;
}

std::string addressText(const std::string& host, int port) {
  const bool ipv6 = host.find(':') != std::string::npos;
  return (ipv6 ? "[" + host + "]" : host) + ":" + std::to_string(port);
}

Descriptor listenAt(const std::string& host, int port) {
  int error = 0;
  for (const std::string& name : addressesToListenAt(host)) {
    const Addresses addresses = resolve(name, port);
    for (const addrinfo* address = addresses.get(); address != nullptr; address = address->ai_next) {
      Descriptor socket = newSocket(*address);
      const int yes = 1, no = 0;
      setsockopt(socket.get(), SOL_SOCKET, SO_REUSEADDR, &yes, sizeof(yes));
      if (address->ai_family == AF_INET6) setsockopt(socket.get(), IPPROTO_IPV6, IPV6_V6ONLY, &no, sizeof(no));
      fcntl(socket.get(), F_SETFL, fcntl(socket.get(), F_GETFL) | O_NONBLOCK);
      if (bind(socket.get(), address->ai_addr, address->ai_addrlen) == 0 && listen(socket.get(), 1024) == 0) {
        return socket;
      }
      error = errno;
    }
    if (error == EADDRINUSE) break;
  }
  throw std::runtime_error("rank 0 cannot listen at " + addressText(host, port) + ": " + std::strerror(error) +
                           (error == EADDRINUSE ? "; another rank 0 or another program uses this port" : ""));
}

Connection::Connection(Descriptor socket) : socket_(std::move(socket)) {
  fcntl(socket_.get(), F_SETFL, fcntl(socket_.get(), F_GETFL) | O_NONBLOCK);
  const int yes = 1;
  setsockopt(socket_.get(), IPPROTO_TCP, TCP_NODELAY, &yes, sizeof(yes));
}

Connection Connection::open(const std::string& host, int port, Clock::time_point deadline) {
  for (;;) {
    std::string problem;
    try {
      const Addresses addresses = resolve(host, port);
      for (const addrinfo* address = addresses.get(); address != nullptr; address = address->ai_next) {
        Descriptor socket = newSocket(*address);
        if (socket.get() >= 0 && connectOnce(socket, *address, deadline)) return Connection(std::move(socket));
        problem = std::strerror(errno);
      }
    } catch (const std::runtime_error& error) {
      problem = error.what();  // a name may become known later, too
    }
    constexpr Milliseconds kPause(50);
    if (Clock::now() + kPause >= deadline) throw std::runtime_error(problem);
    std::this_thread::sleep_for(kPause);
  }
}

std::optional<Connection> Connection::accept(const Descriptor& listener) {
  Descriptor socket(accept4(listener.get(), nullptr, nullptr, SOCK_CLOEXEC));
  if (socket.get() < 0) return std::nullopt;
  return Connection(std::move(socket));
}

void Connection::send(const Message& message) {
  const std::string bytes = encode(message);
  size_t sent = 0;
  while (sent < bytes.size()) {
    const ssize_t count = ::send(socket_.get(), bytes.data() + sent, bytes.size() - sent, MSG_NOSIGNAL);
    if (count < 0 && errno == EINTR) continue;
    if (count < 0) {
      shutdown(socket_.get(), SHUT_RDWR);
      return;
    }
    sent += count;
  }
}

std::vector<Message> Connection::receive() {
  char buffer[4096];
  // The limit is for those that are no ranks: who sends without end must not fill the memory.
  while (open_ && arrived_.size() <= kMaxMessageBytes) {
    const ssize_t count = recv(socket_.get(), buffer, sizeof(buffer), 0);
    if (count > 0) {
      arrived_.append(buffer, count);
    } else if (count == 0 || (errno != EAGAIN && errno != EWOULDBLOCK && errno != EINTR)) {
      open_ = false;
    } else if (errno != EINTR) {
      break;
    }
  }
  std::vector<Message> messages = std::move(waiting_);
  waiting_.clear();
  const char* next = arrived_.data();
  const char* end = next + arrived_.size();
  while (static_cast<size_t>(end - next) >= sizeof(uint32_t)) {
    const char* at = next;
    const uint32_t length = take<uint32_t>(at);
    if (length > kMaxMessageBytes || length < kHeaderBytes - sizeof(uint32_t)) {
      open_ = false;
      break;
    }
    if (static_cast<size_t>(end - at) < length) break;
    Message message;
    message.type = static_cast<MessageType>(take<int32_t>(at));
    message.rank = take<int32_t>(at);
    message.step = take<int64_t>(at);
    message.completed = take<int64_t>(at);
    message.ids.begin = take<int64_t>(at);
    message.ids.end = take<int64_t>(at);
    message.text.assign(at, next + sizeof(uint32_t) + length);
    messages.push_back(std::move(message));
    next += sizeof(uint32_t) + length;
  }
  arrived_.erase(0, next - arrived_.data());
  return messages;
}

std::optional<Message> Connection::wait(Clock::time_point deadline) {
  for (;;) {
    std::vector<Message> messages = receive();
    if (!messages.empty()) {
      Message first = std::move(messages.front());
      waiting_.assign(std::make_move_iterator(messages.begin() + 1), std::make_move_iterator(messages.end()));
      return first;
    }
    if (!open_ || Clock::now() >= deadline) return std::nullopt;
    waitForAny({descriptor()}, until(deadline));
  }
}

void waitForAny(const std::vector<int>& descriptors, Milliseconds longest) {
  std::vector<pollfd> polled;
  for (const int descriptor : descriptors) polled.push_back({descriptor, POLLIN, 0});
  poll(polled.data(), polled.size(), static_cast<int>(std::min<int64_t>(longest.count(), INT_MAX)));
}

}  // namespace lm_head
