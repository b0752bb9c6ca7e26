/* Internet addresses as text. */
#ifndef _ARPA_INET_H
#define _ARPA_INET_H
#include <netinet/in.h>

__BEGIN_DECLS
in_addr_t inet_addr(const char *text);
int inet_aton(const char *text, struct in_addr *place);
char *inet_ntoa(struct in_addr address);
int inet_pton(int family, const char *text, void *place);
const char *inet_ntop(int family, const void *address, char *place, socklen_t size);
__END_DECLS
#endif
