/* SPDX-License-Identifier: Apache-2.0 */
/* One link to QEMU, shared by threads, each wait of the same length. */
#include "introspect/guest/qemu_monitor.h"

#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>

#include "introspect/guest/qemu_text.h"

enum gs_code guest_monitor_execute(struct guest_monitor *m, const char *command, json_t *arguments,
				   json_t **value_out, struct gs_error *err)
{
	pthread_mutex_lock(&m->lock);
	enum gs_code rc = m->link->ops->execute(m->link, command, arguments, guest_monitor_limit(m),
						value_out, err);
	pthread_mutex_unlock(&m->lock);
	return rc;
}

enum gs_code guest_monitor_text(struct guest_monitor *m, json_t **text_out, struct gs_error *err,
				const char *fmt, ...)
{
	char line[128];
	va_list ap;

	va_start(ap, fmt);
	vsnprintf(line, sizeof(line), fmt, ap);
	va_end(ap);
	json_t *value;
	enum gs_code rc = guest_monitor_execute(
		m, "human-monitor-command", json_pack("{s:s}", "command-line", line), &value, err);
	if (rc)
		return gs_wrap(err, rc, "%s", line);
	if (!json_is_string(value)) {
		json_decref(value);
		return gs_fail(err, GS_EMALFORMED, "%s: QEMU's answer is no text", line);
	}
	*text_out = value;
	return GS_OK;
}

enum gs_code guest_monitor_hva(struct guest_monitor *m, gpa_t at, uint64_t *hva_out,
			       struct gs_error *err)
{
	json_t *text;
	enum gs_code rc = guest_monitor_text(m, &text, err, "gpa2hva %#" PRIx64, at.a);

	if (rc)
		return rc;
	bool ok = guest_qemu_parse_hva(json_string_value(text), json_string_length(text), hva_out);
	json_decref(text);
	return ok ? GS_OK : gs_fail(err, GS_ENOTSUP, "QEMU does not say where it has the RAM");
}

enum gs_code guest_monitor_words(struct guest_monitor *m, gpa_t at, void *buf, size_t len,
				 struct gs_error *err)
{
	json_t *text;
	enum gs_code rc = guest_monitor_text(m, &text, err, "xp /%zugx %#" PRIx64,
					     len / sizeof(uint64_t), at.a);

	if (rc)
		return rc;
	bool ok = guest_qemu_parse_words(json_string_value(text), json_string_length(text), at, buf,
					 len);
	json_decref(text);
	return ok ? GS_OK
		  : gs_fail(err, GS_EFAULT, "QEMU cannot read %#" PRIx64 "+%#zx", at.a, len);
}
